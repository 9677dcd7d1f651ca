package asset

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Wanted is a machine's request to the Packer host. It contains names and no
// addresses: a machine must not choose what the Packer host reads or fetches.
type Wanted struct {
	// Asset is the ID of the requested asset; empty when an image is requested.
	Asset string `json:"asset,omitempty"`
	// Image is one of the spec's images, with its digest. As is its name on the
	// machine.
	Image string `json:"image,omitempty"`
	As    string `json:"as,omitempty"`
}

// String is the request for messages.
func (w Wanted) String() string {
	if w.Image != "" {
		return "the image " + w.Image
	}
	return w.Asset
}

// Supplied is the answer to a request. The caller reads it to its end and closes
// it.
type Supplied struct {
	io.ReadCloser `json:"-"`
	Size          int64  `json:"size"` // bytes
	SHA256        string `json:"sha256"`
	// Digest is the digest of an image's manifest for the machine.
	Digest string `json:"digest,omitempty"`
}

// Supply delivers files that a machine does not fetch itself.
type Supply interface {
	Supply(ctx context.Context, w Wanted) (*Supplied, error)
}

// FromSupply makes a Source of a Supply. The content is compared with the pins of
// the spec, as for every source.
func FromSupply(s Supply) Source { return supplied{s} }

type supplied struct{ Supply }

// begin implements Source.
func (s supplied) begin(ctx context.Context, d Download) (content, string, error) {
	got, err := s.Supply.Supply(ctx, Wanted{Asset: d.ID})
	if err != nil {
		return nil, "", err
	}
	if d.SHA256 != "" && got.SHA256 != d.SHA256 {
		return nil, "", errors.Join(fmt.Errorf("verifying %s: the Packer host sends the SHA-256 %s, but %s is pinned; nothing was installed", d, got.SHA256, d.SHA256), got.Close())
	}
	return sent{got}, got.SHA256, nil
}

// sent is a file from the session, as content.
type sent struct{ *Supplied }

func (s sent) size() int64 { return s.Size }
