package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Is says whether the machine's file equals the recorded one, and if not, why. It
// reads the whole file unless size or mode differ.
func (f File) Is(h *host.Host) (same bool, why string, err error) {
	look := h.Files.Stat // a command may be a link's target
	if f.Link != "" {
		look = h.Files.Lstat
	}
	st, err := look(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, f.Path + " is missing", nil
	}
	if err != nil {
		return false, "", fmt.Errorf("checking %s: %w", f.Path, err)
	}
	if f.Link != "" {
		to, err := h.Files.ReadlinkIfPossible(f.Path)
		if err == nil && to == f.Link {
			return true, "", nil
		}
		return false, f.Path + " is not the link that was installed", nil
	}
	if !st.Mode().IsRegular() || st.Size() != f.Size || st.Mode().Perm() != fs.FileMode(f.Mode) {
		return false, f.Path + " is not what was installed", nil
	}
	sum, err := sumFile(h, f.Path)
	if err != nil {
		return false, "", fmt.Errorf("checking %s: %w", f.Path, err)
	}
	if sum != f.SHA256 {
		return false, f.Path + " is not what was installed", nil
	}
	return true, "", nil
}

func sumFile(h *host.Host, name string) (string, error) {
	in, err := h.Files.Open(name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, in, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Is says whether all files of the asset equal the recorded ones. Otherwise why
// names the first that differs.
func (a Asset) Is(h *host.Host) (same bool, why string, err error) {
	for _, f := range a.Files {
		if same, why, err := f.Is(h); err != nil || !same {
			return false, why, err
		}
	}
	return true, "", nil
}

// Tags returns the tags of an AMI with the versions of its assets.
func Tags(kubernetes, distro, arch string, assets map[string]string) map[string]string {
	tags := map[string]string{"eksnode:kubernetes-version": kubernetes, "eksnode:distro": distro, "eksnode:architecture": arch}
	for id, version := range assets {
		tags["eksnode:asset:"+id] = version
	}
	return tags
}

// Tags returns the tags of an AMI of the image.
func (m *Manifest) Tags() map[string]string {
	assets := map[string]string{}
	for _, a := range m.Assets {
		assets[a.ID] = a.Version
	}
	return Tags(m.KubernetesVersion, m.Distro, m.Arch, assets)
}
