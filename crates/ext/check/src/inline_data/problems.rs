//! Catalogue rows of `inline_data`.

use fsmend_engine::problem_rows;

problem_rows! {}
