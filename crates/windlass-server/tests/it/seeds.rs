//! Systems of the seeds, running on windlass as their READMEs say.

mod process;
