package asset

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Wanted is what a machine asks of whoever provisions it. It names things, and
// never says where they are: a machine must not choose what the Packer host
// reads or fetches.
type Wanted struct {
	// Asset is an asset's ID; empty when an image is wanted.
	Asset string `json:"asset,omitempty"`
	// Image is one of the spec's images, with its digest, and As the name it
	// shall have on the machine.
	Image string `json:"image,omitempty"`
	As    string `json:"as,omitempty"`
}

// String names it in messages.
func (w Wanted) String() string {
	if w.Image != "" {
		return "the image " + w.Image
	}
	return w.Asset
}

// Supplied is what was wanted. It is read to its end and closed.
type Supplied struct {
	io.ReadCloser `json:"-"`
	Size          int64  `json:"size"` // bytes
	SHA256        string `json:"sha256"`
	// Digest is that of an image's manifest for the machine.
	Digest string `json:"digest,omitempty"`
}

// Supply brings a machine what it does not fetch itself.
type Supply interface {
	Supply(ctx context.Context, w Wanted) (*Supplied, error)
}

// FromSupply makes a Source of a Supply. What the spec pins is compared with
// what comes, as with any source.
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

// sent is what comes through the session, as content.
type sent struct{ *Supplied }

func (s sent) size() int64 { return s.Size }
