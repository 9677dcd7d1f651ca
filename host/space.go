package host

// Space is what the file system that holds a path has left.
type Space struct {
	// FreeBytes is what root may still write.
	FreeBytes uint64
	// BlockBytes is the smallest piece that the file system gives to a file, and
	// DiscardBytes the smallest that its disk discards; 0 is not known.
	BlockBytes, DiscardBytes uint64
	// ReadOnly says that nothing can be written at all.
	ReadOnly bool
}
