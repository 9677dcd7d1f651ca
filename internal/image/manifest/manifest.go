// Package manifest describes an image in a file of the image: its packages and
// assets, the templates for first boot, and the units that may start at boot.
// Provisioning writes the manifest, the scrub restores files from it, and an audit
// compares with it.
package manifest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

const (
	// Path is the manifest's path on a machine.
	Path = "/etc/eks/eksnode/manifest.json"
	// Schema names the manifest's format. It changes when a reader would break.
	Schema = "eksnode.image/v1"
)

// Manifest describes an image. Two provisions of the same machine from the same
// spec give the same manifest: it contains no times and no build names.
type Manifest struct {
	Schema string `json:"schema"`
	// Tool is the version of the eksnode that provisioned.
	Tool string `json:"tool,omitempty"`
	// Distro is the distribution's ID in eksnode's table. DistroVersion is
	// VERSION_ID of os-release(5), or empty.
	Distro        string `json:"distro,omitempty"`
	DistroVersion string `json:"distro_version,omitempty"`
	// Arch is the architecture as Go spells it: amd64, arm64.
	Arch              string `json:"arch,omitempty"`
	KubernetesVersion string `json:"kubernetes_version,omitempty"`
	// PackageManager is the name of the tool, such as "apt".
	PackageManager string `json:"package_manager,omitempty"`
	// Packages are the packages that provisioning installed, by name.
	Packages []Package `json:"packages,omitempty"`
	// Assets are the downloads, by ID. Each is recorded as soon as it is installed,
	// so that the run after an interruption does not fetch it again.
	Assets []Asset `json:"assets,omitempty"`
	// Images are the container images in containerd, by name.
	Images []Image `json:"images,omitempty"`
	// Kernels are the folders of kernel modules.
	Kernels []string `json:"-"`
	// Templates are the files that first boot fills in, in their state before first
	// boot.
	Templates []Template `json:"templates,omitempty"`
	// Files are the other files that provisioning wrote.
	Files []File `json:"files,omitempty"`
	// Units are the units that provisioning enabled or disabled.
	Units []Unit `json:"units,omitempty"`
}

// Package is one installed package. A manifest in an image has only names and versions.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Source is the source package.
	Source string `json:"-"`
	// Licenses are expressions of SPDX. UnknownLicenses are names that SPDX does not have.
	Licenses        []string `json:"-"`
	UnknownLicenses []string `json:"-"`
}

// Asset is one download.
type Asset struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	// URL is its address, without user and password.
	URL string `json:"url"`
	// FetchedFrom is "Packer host" or "a folder" when the file did not come from
	// URL. SumFrom is the origin of SHA256: the checksum file's address, "lock file",
	// "checksums" for the field, "Packer host" or "a folder".
	FetchedFrom string `json:"fetched_from,omitempty"`
	SumFrom     string `json:"sum_from,omitempty"`
	// Size in bytes and SHA256 in hexadecimal describe the download; for an
	// archive, the archive itself.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Files are the files on the machine from this download.
	Files []File `json:"files"`
}

// Image is a pinned container image in containerd: first boot need not pull it, and
// the kubelet's garbage collection keeps it.
type Image struct {
	// Name is the name in a pod's spec, such as "registry.k8s.io/pause:3.10".
	Name string `json:"name"`
	// Digest is the digest of the manifest for this machine, such as "sha256:…".
	Digest string `json:"digest"`
	// Source is the requested image: the name in its registry and the digest there,
	// which may be that of a list of manifests.
	Source string `json:"source,omitempty"`
}

// File is one file on the machine.
type File struct {
	Path string `json:"path"`
	Mode Mode   `json:"mode"`
	Size int64  `json:"size"`
	// SHA256 is the sum of the content in hexadecimal, or empty for a link.
	SHA256 string `json:"sha256,omitempty"`
	// Link is the target of a symbolic link.
	Link string `json:"link,omitempty"`
}

// Template is a file with placeholders that first boot fills in.
type Template struct {
	Path    string `json:"path"`
	Mode    Mode   `json:"mode"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	SHA256  string `json:"sha256"`
	Content string `json:"content"`
}

// Attributes are the template's mode and owner.
func (t Template) Attributes() host.Attributes {
	return host.Attributes{Mode: fs.FileMode(t.Mode), UID: t.UID, GID: t.GID}
}

// Unit is a unit that provisioning enabled or disabled.
type Unit struct {
	Name string `json:"name"`
	// Enabled says whether the unit starts at boot. False means that only first
	// boot may start it.
	Enabled bool `json:"enabled"`
}

// Mode is a file's permission bits. In JSON it is octal text, such as "0644".
type Mode fs.FileMode

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint32(m)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mode) UnmarshalText(text []byte) error {
	bits, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || bits > 0o777 {
		return fmt.Errorf("reading the mode %q: a mode must be octal and at most 0777", text)
	}
	*m = Mode(bits)
	return nil
}

// Load reads the machine's manifest. It returns nil without an error when the
// machine has none, such as an image from another tool. A damaged manifest, or one
// with another schema, is an error.
func Load(h *host.Host) (*Manifest, error) {
	data, err := h.Content(Path)
	if err != nil {
		return nil, fmt.Errorf("reading the image's manifest: %w", err)
	}
	if data == nil {
		return nil, nil
	}
	m, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading the image's manifest %s: %w; remove the file and provision again", Path, err)
	}
	return m, nil
}

// Parse reads a manifest. It checks the schema and every template's SHA-256.
func Parse(data []byte) (*Manifest, error) {
	var m Manifest
	if err := strictjson.ReadKnown(data, &m); err != nil {
		return nil, err
	}
	if m.Schema != Schema {
		return nil, fmt.Errorf("the schema is %q, not %q", m.Schema, Schema)
	}
	for _, t := range m.Templates {
		if Sum([]byte(t.Content)) != t.SHA256 {
			return nil, fmt.Errorf("the template of %s does not have the SHA-256 that is recorded for it", t.Path)
		}
	}
	return &m, nil
}

// Encode is the manifest's text: indented, sorted, and the same for the same
// content.
func (m *Manifest) Encode() ([]byte, error) {
	sorted := *m
	sorted.Schema = Schema
	sorted.Packages = sortedBy(m.Packages, func(p Package) string { return p.Name })
	sorted.Assets = sortedBy(m.Assets, func(a Asset) string { return a.ID })
	sorted.Images = sortedBy(m.Images, func(i Image) string { return i.Name })
	sorted.Templates = sortedBy(m.Templates, func(t Template) string { return t.Path })
	sorted.Files = sortedBy(m.Files, func(f File) string { return f.Path })
	sorted.Units = sortedBy(m.Units, func(u Unit) string { return u.Name })
	for i := range sorted.Assets {
		sorted.Assets[i].Files = sortedBy(sorted.Assets[i].Files, func(f File) string { return f.Path })
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(&sorted); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Save writes the manifest. It does not touch a file with the same content.
func (m *Manifest) Save(h *host.Host) error {
	data, err := m.Encode()
	if err != nil {
		return fmt.Errorf("encoding the image's manifest: %w", err)
	}
	old, err := h.Content(Path)
	if err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := h.Files.WriteFile(Path, data, host.Attributes{Mode: 0o644}); err != nil {
		return fmt.Errorf("writing the image's manifest: %w", err)
	}
	return nil
}

// Asset finds an asset by its ID. The manifest may be nil.
func (m *Manifest) Asset(id string) (Asset, bool) {
	return find(cmp.Or(m, &Manifest{}).Assets, func(a Asset) bool { return a.ID == id })
}

// Image finds an image by its name. The manifest may be nil.
func (m *Manifest) Image(name string) (Image, bool) {
	return find(cmp.Or(m, &Manifest{}).Images, func(i Image) bool { return i.Name == name })
}

// Template finds a template by its path. The manifest may be nil.
func (m *Manifest) Template(path string) (Template, bool) {
	return find(cmp.Or(m, &Manifest{}).Templates, func(t Template) bool { return t.Path == path })
}

// Record adds an asset, or replaces the one with the same ID.
func (m *Manifest) Record(a Asset) {
	m.Assets = append(slices.DeleteFunc(slices.Clone(m.Assets), func(o Asset) bool { return o.ID == a.ID }), a)
}

// RecordImage adds an image, or replaces the one with the same name.
func (m *Manifest) RecordImage(i Image) {
	m.Images = append(slices.DeleteFunc(slices.Clone(m.Images), func(o Image) bool { return o.Name == i.Name }), i)
}

// Sum is the SHA-256 of data in the manifest's form.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func find[T any](list []T, is func(T) bool) (T, bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	var none T
	return none, false
}

func sortedBy[T any](list []T, key func(T) string) []T {
	return slices.SortedStableFunc(slices.Values(list), func(a, b T) int { return strings.Compare(key(a), key(b)) })
}

// Differs says why the machine's file does not equal the recorded one; empty means that it
// does. It reads the whole file unless size or mode differ.
func (f File) Differs(h *host.Host) (why string, err error) {
	look := h.Files.Stat // a command may be a link's target
	if f.Link != "" {
		look = h.Files.Lstat
	}
	st, err := look(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return f.Path + " is missing", nil
	}
	if err != nil {
		return "", fmt.Errorf("checking %s: %w", f.Path, err)
	}
	if f.Link != "" {
		if to, err := h.Files.ReadlinkIfPossible(f.Path); err != nil || to != f.Link {
			return f.Path + " is not the link that was installed", nil
		}
		return "", nil
	}
	same := st.Mode().IsRegular() && st.Size() == f.Size && st.Mode().Perm() == fs.FileMode(f.Mode)
	if same {
		sum, err := sumFile(h, f.Path)
		if err != nil {
			return "", fmt.Errorf("checking %s: %w", f.Path, err)
		}
		same = sum == f.SHA256
	}
	if !same {
		return f.Path + " is not what was installed", nil
	}
	return "", nil
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

// Differs says why the first file differs that does not equal the recorded one.
func (a Asset) Differs(h *host.Host) (why string, err error) {
	for _, f := range a.Files {
		if why, err := f.Differs(h); err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// Tags returns the tags of an AMI with the versions of its assets.
func Tags(kubernetes, distro, arch string, assets map[string]string) map[string]string {
	tags := map[string]string{"eksnode:kubernetes-version": kubernetes, "eksnode:distro": distro,
		"eksnode:architecture": arch}
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

// Paths returns the files that provisioning installed.
func (m *Manifest) Paths() []string {
	files := slices.Clone(m.Files)
	for _, a := range m.Assets {
		files = append(files, a.Files...)
	}
	names := show.Each(files, func(f File) string { return f.Path })
	return append(names, show.Each(m.Templates, func(t Template) string { return t.Path })...)
}
