//! Catalogue rows of `directory`.

use fsmend_engine::problem_rows;

problem_rows! {}
