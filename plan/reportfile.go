package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ReportFile is the file that keeps a run's report. One process at a time has
// it: a lock on the file dies with the process. Where the system has no such
// locks (Windows), nothing is refused.
type ReportFile struct {
	path string
	lock *os.File // on the file that lies at path
}

// InUseError says that another process keeps its report in a file.
type InUseError struct {
	Path string
	// Holder is the report of that process, empty when it cannot be read.
	Holder Report
}

func (e *InUseError) Error() string {
	holder := "another run"
	if e.Holder.Command != "" {
		holder = "the " + e.Holder.Command
	}
	if e.Holder.Build != "" {
		holder += " of the build " + e.Holder.Build
	}
	return fmt.Sprintf("%s keeps the report of %s, which has not ended", e.Path, PrintableLine(holder))
}

// ClaimReport makes path the report file of this process, with the folders
// above it, and writes begun there before anything else happens: no report of
// an earlier run outlives an interruption. A link leads to the file that is
// replaced. Its error is an *InUseError when another process has the file.
func ClaimReport(path string, begun Report) (*ReportFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	path, err := reportPath(path)
	if err != nil {
		return nil, err
	}
	f := &ReportFile{path: path}
	for f.lock == nil {
		if f.lock, err = claim(path); err != nil {
			return nil, err
		}
	}
	if err := f.Write(begun); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// reportPath is where a link leads, and refuses what is no regular file.
func reportPath(path string) (string, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil
	case err != nil:
		return "", err
	case st.IsDir():
		return "", fmt.Errorf("%s is a folder; name a file in the folder, such as %s", path, filepath.Join(path, "report.json"))
	case !st.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file, which a report would replace", path)
	}
	return filepath.EvalSymlinks(path)
}

// claim locks the file at path, which is made if need be. It is nil without an
// error when another process has replaced the file meanwhile.
func claim(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	free, err := tryLock(file)
	if err == nil && !free {
		err = &InUseError{Path: path, Holder: holder(file)}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	locked, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(locked, there) {
		return nil, file.Close()
	}
	return file, nil
}

// holder reads the report of the process that has the file. What cannot be read
// leaves it empty: the file is in use all the same.
func holder(file *os.File) Report {
	const most = 64 << 20
	var r Report
	text, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil || json.Unmarshal(text, &r) != nil {
		return Report{}
	}
	return r
}

// Write replaces the file's content as a whole.
func (f *ReportFile) Write(r Report) error {
	text, err := EncodeJSON(r)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Chmod(0o644)) // for whoever reads the build's reports
	if err == nil {
		err = f.replace(temp)
	}
	if err != nil {
		return errors.Join(err, closed(temp), os.Remove(temp.Name()))
	}
	return nil
}

// closed closes a file that may be closed already.
func closed(file *os.File) error {
	if err := file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Close gives the file up for other processes.
func (f *ReportFile) Close() error { return closed(f.lock) }
