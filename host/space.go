package host

// Space is the free space of the file system that holds a path.
type Space struct {
	// FreeBytes is how much root may still write, and AvailableBytes how much other users.
	FreeBytes, AvailableBytes uint64
	// BlockBytes is the smallest piece that the file system gives to a file.
	// DiscardBytes is the smallest piece that the disk discards. 0 means unknown.
	BlockBytes, DiscardBytes uint64
	// ReadOnly says that the file system is mounted read-only, and NoInodes that it has none
	// left for more files.
	ReadOnly, NoInodes bool
}
