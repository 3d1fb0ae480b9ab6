//! `top`, through a terminal that is not one.
