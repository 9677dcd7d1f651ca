package containerd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Metadata is where containerd keeps its metadata
// (https://github.com/containerd/containerd/blob/main/docs/ops.md).
const Metadata = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"

var errDamaged = errors.New("the database is damaged or cut short: start containerd, or remove /var/lib/containerd and import the images again")

// Guarded does something with a database of bbolt, and returns an error where
// bbolt panics: bbolt maps the file into memory and trusts what is in it.
func Guarded(do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("reading containerd's metadata %s: %w", Metadata, errDamaged)
		}
	}()
	return do()
}

// View looks into the metadata of a containerd that does not run; look is not
// called where there is none. What look is given is good until it returns.
func View(h *host.Host, look func(*bbolt.Tx) error) error {
	if there, err := h.Exists(Metadata); err != nil || !there {
		return err
	}
	return Guarded(func() error {
		db, err := bbolt.Open(Metadata, 0, &bbolt.Options{
			ReadOnly: true, Timeout: 2 * time.Second,
			OpenFile: func(name string, _ int, _ fs.FileMode) (*os.File, error) { return h.Files.OpenRegular(name) },
		})
		if err == nil {
			defer db.Close()
			err = db.View(look)
		}
		if err != nil {
			return fmt.Errorf("reading containerd's metadata %s: %w", Metadata, err)
		}
		return nil
	})
}
