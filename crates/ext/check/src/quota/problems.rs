//! Catalogue rows of `quota`.

use fsmend_engine::problem_rows;

problem_rows! {}
