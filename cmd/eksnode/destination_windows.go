package main

import (
	"fmt"
	"io/fs"
	"os"
)

// openDescriptor refuses: Windows has no paths for a process's open files.
func openDescriptor(name, _ string) (*os.File, error) { return nil, fmt.Errorf("%s is not open", name) }

// isFixed is never so: Windows refuses with a permission.
func isFixed(error) bool { return false }

// keepOwner leaves the owner to the folder, as Windows does.
func keepOwner(*os.File, fs.FileInfo) error { return nil }
