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

// Origin is a publisher of assets. Where its files lie besides, on a mirror or
// in a folder, is another question.
type Origin struct {
	// ID names it in the field source.
	ID string
	// Why says what it has and for whom.
	Why string
	// Dated says that its releases have the day of their build besides a
	// version.
	Dated bool
}

// Origins lists the publishers; the first is the usual one.
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

// OriginByID finds a publisher; an unknown one is an error that says which are
// known.
func OriginByID(id string) (Origin, error) {
	for _, o := range Origins() {
		if o.ID == id {
			return o, nil
		}
	}
	return Origin{}, surface.Errorf("%s %q is not known; known are %s", surface.Name("source"), id, strings.Join(OriginIDs(), ", "))
}
