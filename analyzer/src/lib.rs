//! rocescope as a library: sources, model and views.
