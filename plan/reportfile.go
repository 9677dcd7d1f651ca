package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// ReportFile is the file of a run's report. A lock gives the file to one process at
// a time; the lock ends with the process. On Windows there is no lock.
type ReportFile struct {
	path   string
	encode func(Report) ([]byte, error)
	lock   *os.File // on the file that lies at path
}

// InUseError means that another process keeps its report in the file.
type InUseError struct {
	Path string
	// Holder is the report of that process; empty when the report cannot be read.
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
	return fmt.Sprintf("%s keeps the report of %s, which has not ended", e.Path, show.Line(holder))
}

// ClaimReport makes path the report file of this process and creates the folders
// above. It writes begun there, so that an interrupted run leaves no earlier report.
// A link stays, and its target is replaced. The error is an *InUseError when another
// process has the file. The text of a report comes from encode; JSON if it is nil.
func ClaimReport(path string, begun Report, encode func(Report) ([]byte, error)) (*ReportFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	path, err := reportPath(path)
	if err != nil {
		return nil, err
	}
	if encode == nil {
		encode = func(r Report) ([]byte, error) { return EncodeJSON(r) }
	}
	f := &ReportFile{path: path, encode: encode}
	for f.lock == nil {
		if f.lock, err = claim(path); err != nil {
			return nil, err
		}
	}
	// A link to nothing has led to a new file.
	if f.path, err = filepath.EvalSymlinks(path); err == nil {
		err = f.Write(begun)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// reportPath resolves links, and refuses anything but a regular file.
func reportPath(path string) (string, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil
	case err != nil:
		return "", err
	case st.IsDir():
		return "", fmt.Errorf("%s is a folder; name a file in the folder, such as %s", path,
			filepath.Join(path, "report.json"))
	case !st.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file, which a report would replace", path)
	}
	return filepath.EvalSymlinks(path)
}

// claim locks the file at path, and creates a missing file. The result is nil
// without an error when another process has replaced the file meanwhile.
func claim(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	free, err := tryLock(file)
	if err == nil && !free {
		err = &InUseError{Path: path, Holder: holder(file)}
	}
	locked, failed := file.Stat()
	if err = errors.Join(err, failed); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(locked, there) {
		return nil, file.Close()
	}
	return file, nil
}

// holder reads the report of the process that has the file; empty when the report
// cannot be read.
func holder(file *os.File) Report {
	const most = 64 << 20
	var r Report
	text, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil || json.Unmarshal(text, &r) != nil {
		return Report{}
	}
	return r
}

// WriteTailoring writes the tailoring of a hardened image beside the file of a report, such
// as report.tailoring.xml. Without a file, nothing is written.
func (r Report) WriteTailoring(beside string) error {
	if r.Image == nil || r.Image.Tailoring == "" || beside == "" {
		return nil
	}
	name := strings.TrimSuffix(beside, filepath.Ext(beside)) + ".tailoring.xml"
	return os.WriteFile(name, []byte(r.Image.Tailoring), 0o644) // other users may read reports
}

// Write replaces the whole content of the file.
func (f *ReportFile) Write(r Report) error {
	text, err := f.encode(r)
	if err = errors.Join(err, r.WriteTailoring(f.path)); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*")
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	err = errors.Join(err, temp.Chmod(0o644)) // other users may read reports
	if err == nil {
		err = f.replace(temp)
	}
	if err != nil {
		return errors.Join(err, closed(temp), os.Remove(temp.Name()))
	}
	return nil
}

// closed closes a file that may already be closed.
func closed(file *os.File) error {
	if err := file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Close unlocks the file for other processes.
func (f *ReportFile) Close() error { return closed(f.lock) }
