package scrub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"

	"github.com/eksnode/packer-plugin-eksnode/containerd"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// containerMark stands in every container that containerd has in its metadata,
// beside its whole specification: environment, arguments, annotations.
const containerMark = "types.containerd.io/opencontainers/runtime-spec"

// metadataMost is the size of the largest database that is looked through; a
// node's has some MiB.
const metadataMost = 512 << 20

// freedContainers plans the wiping of containerd's metadata. bbolt, its
// database, keeps what was removed from it in free pages, unchanged until
// something else needs the room.
func freedContainers(_ context.Context, h *host.Host) ([]plan.Action, error) {
	text, err := h.Files.Read(containerdMeta, metadataMost)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	found := false
	err = containerd.Guarded(func() (err error) { found, err = namesFreed(h, text); return err })
	if err != nil || !found {
		return nil, err
	}
	return []plan.Action{{Verb: plan.Wipe, Target: containerdMeta,
		Reason: "containers that were removed stay readable in its free pages, their environment too",
		Do:     func(ctx context.Context, _ plan.Progress) error { return wipeMetadata(ctx, h) }}}, nil
}

// namesFreed says whether a free page of the database still holds a container.
func namesFreed(h *host.Host, text []byte) (bool, error) {
	// A copy, because a running containerd has the file locked.
	db, err := openMetadata(h, func(string, int, fs.FileMode) (*os.File, error) { return inMemory(text) })
	if err != nil {
		return false, err
	}
	defer db.Close()
	free, err := freePages(db)
	if err != nil {
		return false, err
	}
	for _, at := range free {
		if at+int64(db.Info().PageSize) > int64(len(text)) { // grown meanwhile
			break
		}
		if bytes.Contains(text[at:at+int64(db.Info().PageSize)], []byte(containerMark)) {
			return true, nil
		}
	}
	return false, nil
}

func openMetadata(h *host.Host, open func(string, int, fs.FileMode) (*os.File, error)) (*bbolt.DB, error) {
	db, err := bbolt.Open(containerdMeta, 0, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true, Timeout: 2 * time.Second, OpenFile: open})
	if err != nil {
		return nil, fmt.Errorf("reading containerd's metadata %s: %w", containerdMeta, err)
	}
	return db, nil
}

// freePages are the offsets of a database's pages that nothing uses.
func freePages(db *bbolt.DB) ([]int64, error) {
	var free []int64
	err := db.View(func(tx *bbolt.Tx) error {
		for id := 2; ; id++ { // two pages of the database's own come first
			page, err := tx.Page(id)
			if err != nil || page == nil {
				return err
			}
			if page.Type == "free" { // what it says besides is of its former life
				free = append(free, int64(id)*int64(db.Info().PageSize))
				continue
			}
			id += page.OverflowCount
		}
	})
	return free, err
}

// wipeMetadata fills the free pages with zeros.
func wipeMetadata(ctx context.Context, h *host.Host) error {
	fill := func() error { return containerd.Guarded(func() error { return fillFreePages(h) }) }
	if !h.HasSystemd() {
		return fill()
	}
	return withoutContainerd(ctx, h, fill)
}

// withoutContainerd does something while containerd does not run; one that ran
// is started again.
func withoutContainerd(ctx context.Context, h *host.Host, do func() error) (err error) {
	active, err := h.IsActive(ctx, containerdUnit)
	if err != nil {
		return err
	}
	if active {
		if err := systemctl(ctx, h, "stop"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, systemctl(ctx, h, "start")) }()
	}
	return do()
}

func systemctl(ctx context.Context, h *host.Host, verb string) error {
	_, err := h.Run(ctx, host.Command{Argv: []string{"systemctl", verb, containerdUnit}})
	return err
}

func fillFreePages(h *host.Host) (err error) {
	if err := h.Files.Unshare(containerdMeta); err != nil {
		return err
	}
	db, err := openMetadata(h, func(name string, _ int, _ fs.FileMode) (*os.File, error) { return h.Files.OpenRegular(name) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }() // until then nobody else opens it
	free, err := freePages(db)
	if err != nil {
		return err
	}
	out, err := h.Files.OpenOS(containerdMeta, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	zeros := make([]byte, db.Info().PageSize)
	for _, at := range free {
		if _, err = out.WriteAt(zeros, at); err != nil {
			break
		}
	}
	return errors.Join(err, out.Sync(), out.Close())
}
