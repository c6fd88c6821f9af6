// The original interface. The worker loop and the stages depend only on it.
export {};
