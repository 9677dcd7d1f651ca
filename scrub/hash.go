package scrub

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// hashFiles hashes every regular file at and below name, following no links.
func hashFiles(h *host.Host, name string) ([]plan.FileHash, error) {
	var files []plan.FileHash
	err := walk(h, name, func(p string, st fs.FileInfo, err error) error {
		if isMissing(err) {
			return nil
		}
		if err != nil || !st.Mode().IsRegular() {
			return err
		}
		f, err := hashFile(h, p)
		if err == nil {
			files = append(files, f)
		}
		return err
	})
	return files, err
}

func hashFile(h *host.Host, name string) (plan.FileHash, error) {
	in, err := h.Files.Open(name)
	if err != nil {
		return plan.FileHash{}, err
	}
	defer in.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, in)
	return plan.FileHash{Path: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}, err
}
