//go:build !linux

package host

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/afero"
)

// errNotLinux is the error of every method on other systems. The plugin runs there
// too, but only sends specs to machines. A Files cannot be made there, so its
// methods only have to exist.
var errNotLinux = errors.New("machines can only be opened on Linux")

// Files is a machine's file system; see the Linux build.
type Files struct{ afero.Fs }

func openFiles(string) (*Files, error) { return nil, errNotLinux }

func (*Files) OpenOS(string, int, os.FileMode) (*os.File, error)       { return nil, errNotLinux }
func (*Files) OpenRegular(string) (*os.File, error)                    { return nil, errNotLinux }
func (*Files) Read(string, int64) ([]byte, error)                      { return nil, errNotLinux }
func (*Files) Real(string) (string, error)                             { return "", errNotLinux }
func (*Files) Label(string) (string, error)                            { return "", errNotLinux }
func (*Files) ForeignBelow(string) ([]*ForeignMount, error)            { return nil, errNotLinux }
func (*Files) Unshare(string) error                                    { return errNotLinux }
func (*Files) FileSystem(string) (string, error)                       { return "", errNotLinux }
func (*Files) Foreign(string, string, bool) (*ForeignMount, error)     { return nil, errNotLinux }
func (*Files) Close() error                                            { return nil }
func (*Files) Lstat(string) (fs.FileInfo, error)                       { return nil, errNotLinux }
func (*Files) ReadlinkIfPossible(string) (string, error)               { return "", errNotLinux }
func (*Files) SymlinkIfPossible(string, string) error                  { return errNotLinux }
func (*Files) RemoveTree(string) (Removal, error)                      { return Removal{}, errNotLinux }
func (*Files) RemoveContents(string) (Removal, error)                  { return Removal{}, errNotLinux }
func (*Files) Measure(string, bool) (Removal, error)                   { return Removal{}, errNotLinux }
func (*Files) MountsBelow(string) ([]Mount, error)                     { return nil, errNotLinux }
func (*Files) IsMountPoint(string) (bool, error)                       { return false, errNotLinux }
func (*Files) WriteFile(string, []byte, Attributes) error              { return errNotLinux }
func (*Files) WriteTransient(string, []byte, Attributes) error         { return errNotLinux }
func (*Files) Attributes(string) (Attributes, error)                   { return Attributes{}, errNotLinux }
func (*Files) Truncate(string) error                                   { return errNotLinux }
func (*Files) Replace(string, Attributes, func(io.Writer) error) error { return errNotLinux }
func (*Files) Space(string) (Space, error)                             { return Space{}, errNotLinux }
func (*Files) Walk(context.Context, string, string, func(Entry, error) error) ([]*ForeignMount, error) {
	return nil, errNotLinux
}

func (Entry) Open() (*os.File, error)                        { return nil, errNotLinux }
func (Entry) Readlink() (string, error)                      { return "", errNotLinux }
func (Entry) ExtendedAttributes() (map[string]string, error) { return nil, errNotLinux }

func (*Host) Trim(string) (int64, error) { return 0, errNotLinux }
func (*Host) Unmount(string) error       { return errNotLinux }
func (*Host) Trail(string, bool) ([]string, string, error) {
	return nil, "", errNotLinux
}
func (*Host) ZeroFreeSpace(context.Context, string, func(done, total int64)) (int64, error) {
	return 0, errNotLinux
}

// Machines and images are changed on Linux, where locks and what is not yet on the disk matter.

func (*Host) Lock() (unlock func() error, err error) { return func() error { return nil }, nil }
func (*Host) LockHolder(string) string               { return "" }
func (*Host) Sync()                                  {}

// ChangeTime is when an entry changed last; see the Linux build.
func ChangeTime(st fs.FileInfo) time.Time { return st.ModTime() }

func ownGroup(*exec.Cmd)  {}
func killGroup(*exec.Cmd) {}
