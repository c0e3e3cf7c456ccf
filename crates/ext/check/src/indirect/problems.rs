//! Catalogue rows of `indirect`.

use fsmend_engine::problem_rows;

problem_rows! {}
