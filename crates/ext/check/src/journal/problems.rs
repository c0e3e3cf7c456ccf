//! Catalogue rows of `journal`.

use fsmend_engine::problem_rows;

problem_rows! {}
