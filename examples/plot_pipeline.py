"""
Pipelines and grid search
=========================

All models are scikit-learn estimators. They need no search over the width, but a search over any
other parameter works as usual. The features work with any linear model.
"""

# %%
# Numbers, categories and missing values
# --------------------------------------

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.linear_model import HuberRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from mondrian_kernel import MondrianFeatures, MondrianKernelRegressor
from mondrian_kernel.plotting import IntervalDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X = X.assign(sex=X["sex"].map({1.0: "a", 2.0: "b"}))
X.loc[::17, "bmi"] = np.nan
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

columns = ColumnTransformer(
    [("sex", OneHotEncoder(), ["sex"])],
    remainder=make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
)
model = make_pipeline(columns, MondrianKernelRegressor(n_estimators=200, random_state=0))
model.fit(X_train, y_train)
print(f"R² on new rows {model.score(X_test, y_test):.3f}")

# %%
# The pipeline also returns error bars.

mean, std = model.predict(X_test[:3], return_std=True)
print(np.c_[mean, std].round(1))

# %%
# A pipeline does not have all methods of its last step. Call these on the step itself.

encoder, regressor = model
rows = encoder.transform(X_test)
display = IntervalDisplay.from_estimator(regressor, rows, y_test, coverage=0.9)
display.ax_.set_ylabel("progression of the disease")

# %%
# A search
# --------
# Should the columns be scaled, and which criterion is better? Each fit of the search chooses its
# own width.

search = GridSearchCV(
    model,
    {
        "mondriankernelregressor__scale": ["std", None],
        "mondriankernelregressor__criterion": ["loo", "evidence"],
    },
    cv=3,
)
search.fit(X_train, y_train)
for params, score in zip(
    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
):
    print({name.rpartition("__")[2]: value for name, value in params.items()}, f"{score:.3f}")

# %%
# Features with another learner
# -----------------------------
# Huber's loss is robust against outliers. The features have the width that was found above. It
# refers to columns of standard deviation 1.

features = MondrianFeatures(regressor.lifetime_, 100, random_state=0)
huber = HuberRegressor(alpha=0.01, max_iter=1000)
robust = make_pipeline(columns, StandardScaler(), features, huber)
scores = cross_val_score(robust, X_train, y_train, cv=3)
print(f"Huber's loss: R² {scores.mean():.3f}")
