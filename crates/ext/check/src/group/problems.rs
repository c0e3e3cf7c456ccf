//! Catalogue rows of `group`.

use fsmend_engine::problem_rows;

problem_rows! {}
