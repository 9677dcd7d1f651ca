// Package asset lists the files that a node needs and that no package manager
// installs: the publisher's address of each, the form of its checksum, and how to
// fetch, verify and install it. An unverified file is never installed.
package asset

import (
	"cmp"
	_ "embed"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

// SumForm is the form of a checksum file with a SHA-256.
type SumForm string

// The forms of the publishers.
const (
	// Bare is the sum in hexadecimal and nothing else.
	Bare SumForm = "bare"
	// Listed is the output of sha256sum: a sum and a file name on each line.
	Listed SumForm = "listed"
)

// Kind is the kind of a downloaded file.
type Kind string

// The kinds.
const (
	Program Kind = "program" // one executable
	TarGz   Kind = "tar.gz"  // an archive, unpacked into a folder
)

// Release is a publisher's address scheme for an asset. The templates may contain
// {version}, {kubernetes}, {arch} and {date}.
type Release struct {
	// URL is the file's address, and Sum the address of its SHA-256.
	URL     string  `yaml:"url"`
	Sum     string  `yaml:"sum"`
	SumForm SumForm `yaml:"form" enum:"bare,listed"`
	// Catalog is a page for people that lists the versions. It is empty when the
	// publisher lists the versions for programs.
	Catalog string `yaml:"catalog"`
}

// Asset is one row of the table. Its Target may contain {arch} and {commands}, the
// distribution's folder for commands.
type Asset struct {
	// ID names the asset in flags, plans and the manifest.
	ID string `yaml:"id"`
	// Why names the purpose of the asset.
	Why string `yaml:"why"`
	// Version is the release to use, without "v". Empty means the version of
	// Kubernetes.
	Version string `yaml:"version"`
	// Since is the first minor version of Kubernetes 1 whose kubelet needs the
	// asset; 0 means all.
	Since int `yaml:"since"`
	// Chosen says that only distributions that list the ID get the asset, by
	// themselves or by the option containerd. The others install a package.
	Chosen bool `yaml:"chosen"`
	// Release is the release of the upstream project.
	Release
	// EKS is the release in EKS' own bucket, whose files have the version of
	// Kubernetes. It is nil when the bucket has no release with a version of its
	// own.
	EKS  *Release `yaml:"eks"`
	Kind Kind     `yaml:"kind" enum:"program,tar.gz"`
	// Target is the program's path, or the folder into which an archive is
	// unpacked.
	Target string `yaml:"target"`
}

// from is the release of an origin, or upstream's when the origin has none.
func (a Asset) from(origin string) (r Release, published string) {
	if origin == EKSBucket && a.EKS != nil {
		return *a.EKS, EKSBucket
	}
	return a.Release, Upstream
}

// VersionSource names the field of a spec that decides an asset's version.
func (a Asset) VersionSource() surface.Name {
	if a.Version == "" {
		return "kubernetes_version"
	}
	return surface.Name("versions").Key(a.ID)
}

// assetsFile lists the assets.
//
//go:embed assets.yaml
var assetsFile []byte

// table is the content of assetsFile.
var table = sync.OnceValue(func() (all []Asset) {
	if _, err := strictjson.ReadYAML("assets.yaml", assetsFile, &all); err != nil {
		panic(err) // the file is ours
	}
	for i, a := range all {
		if a.Version == "own" {
			all[i].Version = lifecycle.Default(a.ID)
		}
	}
	return all
})

// Table lists the assets, in the order they are installed.
func Table() []Asset { return slices.Clone(table()) }

// IDs lists the assets' IDs.
func IDs() []string {
	return show.Each(Table(), func(a Asset) string { return a.ID })
}

// Choice selects the form of an asset for one machine.
type Choice struct {
	// Kubernetes is the kubelet's version. Arch is the architecture as Go spells
	// it.
	Kubernetes, Arch string
	// Commands is the distribution's folder for commands.
	Commands string
	// Version, when not empty, replaces the table's version. SHA256, when not
	// empty, replaces the sum of upstream's checksum file.
	Version, SHA256 string
	// Origin is the ID of the publisher. Empty means the lock's origin, or
	// upstream.
	Origin string
	// Date is the day of EKS' build, such as "2025-11-13". Empty means the lock's
	// date.
	Date string
	// Source, when not empty, is a mirror or a folder with every file at
	// SOURCE/<publisher's host>/<publisher's path>.
	Source string
	// AllowHTTP accepts a checksum that comes over plain http.
	AllowHTTP bool
	// Lock, when not nil, pins each download.
	Lock *Lock
}

// Download is an asset for one machine.
type Download struct {
	ID, Why, Version string
	// VersionSource names the field that decides the version, for remedies.
	VersionSource surface.Name
	URL, SumURL   string
	SumForm       SumForm
	// Published is the publisher's own address, also when URL is in a mirror.
	// Origin is the publisher's ID.
	Published, Origin string
	// SHA256 is set when the sum is pinned; the checksum file is then not fetched.
	// PinnedBy names the origin of the pin for messages; empty means the field
	// checksums. Size is the pinned size in bytes; 0 means any.
	SHA256, PinnedBy string
	Size             int64
	// Mirror is the mirror's address, for remedies. It is empty for the publisher
	// itself.
	Mirror string
	Kind   Kind
	Target string

	folders []versionFolder
	catalog string
}

// For returns the download of an asset: its address, sum and target.
func (a Asset) For(c Choice) (Download, error) {
	c, locked, err := c.locked(a)
	if err != nil {
		return Download{}, err
	}
	release, published := a.from(c.Origin)
	d := Download{
		ID: a.ID, Why: a.Why, Version: c.version(a, published), VersionSource: a.VersionSource(), Origin: published,
		SumForm: release.SumForm, SHA256: strings.ToLower(c.SHA256), Kind: a.Kind, catalog: release.Catalog,
	}
	if published == EKSBucket {
		d.VersionSource = "kubernetes_version and eks_build_date"
		if c.Date == "" {
			return Download{}, surface.Errorf(`choosing %s: %s %q needs %s, the day of EKS' build, or a lock file: `+
				`"eksnode lock --source %[3]s" finds the newest day and records it`, a.ID, surface.Name("source"),
				EKSBucket, surface.Name("eks_build_date"))
		}
	}
	replacer := strings.NewReplacer("{version}", d.Version, "{kubernetes}", c.Kubernetes, "{date}", c.Date, "{arch}",
		c.Arch, "{commands}", c.Commands)
	d.Published, d.Target = replacer.Replace(release.URL), replacer.Replace(a.Target)
	if d.URL, err = mirrored(c.Source, d.Published); err != nil {
		return Download{}, err
	}
	if d.SumURL, err = mirrored(c.Source, replacer.Replace(release.Sum)); err != nil {
		return Download{}, err
	}
	if c.Source != "" {
		d.Mirror = Place(c.Source)
	}
	if d.folders, err = versionFolders(release.URL, replacer, c.Source, published); err != nil {
		return Download{}, err
	}
	if err := locked.pin(&d); err != nil {
		return d, err
	}
	return d, d.checkSumURL(c.AllowHTTP)
}

func (c Choice) version(a Asset, published string) string {
	if published == EKSBucket {
		return c.Kubernetes
	}
	return cmp.Or(c.Version, a.Version, c.Kubernetes)
}

// mirrored is the place in a mirror of the file that upstream has at address.
func mirrored(source, address string) (string, error) {
	if source == "" {
		return address, nil
	}
	base, err := url.Parse(source)
	if err != nil { // which would contain a password
		return "", surface.Errorf("%s cannot be read as an address", surface.Name("source_url"))
	}
	up, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("reading the address %s: %w", address, err)
	}
	base.Path = path.Join("/", base.Path, up.Host, up.Path)
	base.RawPath = ""
	return base.String(), nil
}

// Place is an address without user, password and query, for messages, reports and the
// image's manifest. The query of a presigned address is a secret too.
func Place(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

// Place is the download's address for messages, see the function Place.
func (d Download) Place() string { return Place(d.URL) }

// Recorded is the address for the image's manifest. For a file from a folder it is
// the publisher's address, because users of the image do not have the folder.
func (d Download) Recorded() string {
	if isFile(d.URL) {
		return Place(d.Published)
	}
	return d.Place()
}

// aFolder replaces the address of a folder in records: others do not have the folder.
const aFolder = "a folder"

func recordedFrom(address string) string {
	if isFile(address) {
		return aFolder
	}
	return Place(address)
}

// sumFrom names the origin of the download's SHA-256 for records.
func (d Download) sumFrom() string {
	switch {
	case d.PinnedBy != "":
		return "lock file"
	case d.SHA256 != "":
		return string(checksums)
	default:
		return recordedFrom(d.SumURL)
	}
}

// checkSumURL refuses a checksum over plain http: whoever replaces the file on the way
// can replace the checksum too.
func (d Download) checkSumURL(allowed bool) error {
	if d.SHA256 != "" || allowed || !strings.HasPrefix(d.SumURL, "http://") {
		return nil
	}
	return surface.Errorf("choosing %s: %s %q has no TLS, so the file and its checksum can be replaced on the way; "+
		"use https://, a lock file or %s, or accept the risk with %s",
		d.ID, surface.Name("source_url"), d.Mirror, checksums.Key(d.ID), surface.Name("allow_http"))
}

// String names the download in messages.
func (d Download) String() string { return d.ID + " " + d.Version }

// programMode is the mode of executables; other files of archives get dataMode.
const (
	programMode fs.FileMode = 0o755
	dataMode    fs.FileMode = 0o644
)

// NeededBy says whether a kubelet of this version needs the asset.
func (a Asset) NeededBy(kubernetes string) bool {
	minor, known := version.Minor(kubernetes)
	return known && minor >= a.Since
}
