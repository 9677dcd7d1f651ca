package scrub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// hashFiles hashes every regular file at and below name, following no links.
// The folder itself may be a link if the verb empties it.
func hashFiles(ctx context.Context, h *host.Host, verb plan.Verb, name string) ([]plan.FileHash, error) {
	if st, err := h.Files.Lstat(name); err == nil && st.Mode()&fs.ModeSymlink != 0 && verb == plan.Remove {
		return nil, nil
	}
	var files []plan.FileHash
	_, err := h.Files.Walk(ctx, name, name, func(e host.Entry, err error) error {
		if err != nil || !e.Mode().IsRegular() {
			return err
		}
		in, err := e.Open()
		if isMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		f, err := hashFile(ctx, in, e.Path)
		files = append(files, f)
		return err
	})
	return files, err
}

// hashFile hashes and closes a file.
func hashFile(ctx context.Context, in *os.File, name string) (plan.FileHash, error) {
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, untilDone{ctx, in})
	return plan.FileHash{Path: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}

// untilDone reads until the context ends.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (r untilDone) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
