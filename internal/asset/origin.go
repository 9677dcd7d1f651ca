package asset

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
)

// The IDs of the publishers.
const (
	Upstream  = "upstream"
	EKSBucket = "eks-bucket"
)

// Origin is a publisher of assets. A mirror or a folder may have the same files.
type Origin struct {
	// ID names the publisher in the field source.
	ID string
	// Why says which files the publisher has.
	Why string
	// Dated says that its releases have a build date in addition to a version.
	Dated bool
}

// Origins lists the publishers. The first is the default.
func Origins() []Origin {
	return []Origin{
		{ID: Upstream, Why: "the release sites of Kubernetes and of each project"},
		{ID: EKSBucket, Why: "the kubelet and the credential provider as EKS builds them, from its public bucket; the rest from upstream", Dated: true},
	}
}

// OriginIDs lists the publishers' IDs.
func OriginIDs() []string {
	var ids []string
	for _, o := range Origins() {
		ids = append(ids, o.ID)
	}
	return ids
}

// OriginByID finds a publisher. An unknown ID is an error that lists the known
// ones.
func OriginByID(id string) (Origin, error) {
	for _, o := range Origins() {
		if o.ID == id {
			return o, nil
		}
	}
	return Origin{}, surface.Errorf("%s %q is not known; known are %s", surface.Name("source"), id, strings.Join(OriginIDs(), ", "))
}

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
