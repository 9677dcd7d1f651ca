package containerd

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// MetadataPath is the file of containerd's metadata
// (https://github.com/containerd/containerd/blob/main/docs/ops.md).
const MetadataPath = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"

// metadataMost is the maximum size of the file in bytes. A node has some MiB.
const metadataMost = 1 << 30

// Metadata is containerd's metadata. No containerd can open the file until it is
// closed.
type Metadata struct {
	*Database
	file *os.File
}

// ReadMetadata reads the metadata, also while containerd runs. It returns nil
// without an error when there is none.
func ReadMetadata(h *host.Host) (*Metadata, error) {
	return readMetadata(h, os.O_RDONLY, func(*os.File) error { return nil })
}

// OpenMetadata reads the metadata of a stopped containerd. flag opens the file for
// reading or also for writing. It returns nil without an error when there is none.
func OpenMetadata(h *host.Host, flag int) (*Metadata, error) { return readMetadata(h, flag, lock) }

func readMetadata(h *host.Host, flag int, lock func(*os.File) error) (*Metadata, error) {
	file, err := h.Files.OpenOS(MetadataPath, flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		var db *Database
		if db, err = readLocked(file, lock); err == nil {
			return &Metadata{db, file}, nil
		}
		err = errors.Join(err, file.Close())
	}
	return nil, fmt.Errorf("reading containerd's metadata %s: %w", MetadataPath, err)
}

func readLocked(file *os.File, lock func(*os.File) error) (*Database, error) {
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > metadataMost {
		return nil, fmt.Errorf("not a regular file of at most %d bytes", metadataMost)
	}
	if err := lock(file); err != nil {
		return nil, err
	}
	return parse(file, st.Size())
}

// FreeContains reports whether an unused page contains a text.
func (m *Metadata) FreeContains(text []byte) (bool, error) {
	page := make([]byte, m.PageSize)
	for _, offset := range m.Free {
		if _, err := m.file.ReadAt(page, offset); err != nil {
			return false, fmt.Errorf("reading containerd's metadata %s: %w", MetadataPath, err)
		}
		if bytes.Contains(page, text) {
			return true, nil
		}
	}
	return false, nil
}

// Close closes the file, so that others may open it.
func (m *Metadata) Close() error { return m.file.Close() }

// WipeFree fills the free pages with zeros.
func (m *Metadata) WipeFree() error {
	zeros := make([]byte, m.PageSize)
	for _, offset := range m.Free {
		if _, err := m.file.WriteAt(zeros, offset); err != nil {
			return err
		}
	}
	return m.file.Sync()
}
