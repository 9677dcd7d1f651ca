package asset

import (
	"fmt"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
	"io"
	"net/url"
	"os"
	"strings"
)

// fileScheme begins the address of a folder with the layout of a mirror.
const fileScheme = "file://"

// isFile says whether an address names a file of the running system.
func isFile(address string) bool { return strings.HasPrefix(address, fileScheme) }

// filePath is the path in the address of a file.
func filePath(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("reading the address of a file: %w", err)
	}
	if u.Host != "" {
		return "", fmt.Errorf("reading the address %s: a file of another machine cannot be read; write file:// and an absolute path", address)
	}
	return u.Path, nil
}

// localFile is a file of a folder, as content.
type localFile struct {
	*os.File
	bytes int64
}

func (l localFile) size() int64 { return l.bytes }

// openFile opens a file by its address, from a byte on.
func openFile(address string, from int64) (content, error) {
	name, err := filePath(address)
	if err != nil {
		return nil, err
	}
	file, err := surface.Open(name)
	if err != nil {
		return nil, err
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	if err == nil && from > 0 {
		_, err = file.Seek(from, io.SeekStart)
	}
	if err != nil {
		_ = file.Close() // opened for reading only
		return nil, err
	}
	return localFile{file, st.Size()}, nil
}
