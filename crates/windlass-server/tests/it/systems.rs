//! The systems of documents 002 and 003, running on windlass as described in their READMEs.

mod process;
