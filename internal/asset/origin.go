package asset

import (
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
