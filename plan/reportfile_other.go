//go:build !unix

package plan

import "os"

// tryLock locks nothing: a file that is open cannot be replaced here.
func tryLock(file *os.File) (bool, error) { return true, nil }

// replace puts temp in the file's place.
func (f *ReportFile) replace(temp *os.File) error {
	if err := temp.Close(); err != nil {
		return err
	}
	if err := closed(f.lock); err != nil {
		return err
	}
	return os.Rename(temp.Name(), f.path)
}
