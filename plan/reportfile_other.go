//go:build !unix

package plan

import "os"

// tryLock locks nothing: an open file cannot be replaced on this system.
func tryLock(file *os.File) (bool, error) { return true, nil }

func (f *ReportFile) replace(temp *os.File) error {
	if err := temp.Close(); err != nil {
		return err
	}
	if err := closed(f.lock); err != nil {
		return err
	}
	return os.Rename(temp.Name(), f.path)
}
