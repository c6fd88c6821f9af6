// The seam, as the team wrote it: whatever is behind it, the worker loop and the stages stay as they are.
export {};
