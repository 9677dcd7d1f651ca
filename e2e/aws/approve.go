//go:build linux

package aws

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// SigningKey is the alias of the world's key for signatures: moto 5.1 hashes what is a
// digest already (its comment on kms.verify: "The MessageType-parameter DIGEST is not yet
// implemented").
const SigningKey = "alias/statements"

type publicKeyOut struct {
	PublicKey         []byte
	SigningAlgorithms []string
}

func (w *World) publicKey(_ string, in struct{ KeyID string }) (out publicKeyOut, err error) {
	if in.KeyID != SigningKey {
		return out, endpoint.Fail("NotFoundException", "Alias %s is not found", in.KeyID)
	}
	if w.signing == nil {
		if w.signing, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return out, err
		}
	}
	out.SigningAlgorithms = []string{"ECDSA_SHA_256"}
	out.PublicKey, err = x509.MarshalPKIXPublicKey(w.signing.Public())
	return out, err
}

type signatureOut struct{ Signature []byte }

func (w *World) sign(_ string, in struct {
	KeyID                         string
	Message                       []byte
	MessageType, SigningAlgorithm string
}) (out signatureOut, err error) {
	if in.KeyID != SigningKey || in.MessageType != "DIGEST" || in.SigningAlgorithm != "ECDSA_SHA_256" || len(in.Message) != 32 {
		return out, endpoint.Refuse("the signature %+v", in)
	}
	out.Signature, err = ecdsa.SignASN1(rand.Reader, w.signing, in.Message)
	return out, err
}

// Watermark is a mark of an image, which copies and images of instances inherit
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AttachImageWatermark.html).
type Watermark struct {
	Key    string `xml:"watermarkKey"`
	Image  string `xml:"sourceImageId"`
	Region string `xml:"sourceImageRegion"`
}

// watermarksMost is the limit of watermarks of an image
// (https://aws.amazon.com/about-aws/whats-new/2026/06/amazon-ec2-ami-watermarks/).
const watermarksMost = 5

type watermarkOut struct {
	Key string `xml:"watermarkKey" query:"WatermarkKey"`
}

func (w *World) attachWatermark(region string, in struct {
	ImageId, WatermarkName string
}) (out watermarkOut, err error) {
	i, err := w.ownImage(region, in.ImageId)
	if err != nil {
		return out, err
	}
	out.Key = Account + ":" + in.WatermarkName
	if slices.Contains(i.Watermarks, Watermark{out.Key, in.ImageId, region}) { // the answer was lost
		return out, nil
	}
	public := slices.ContainsFunc(i.Shares, func(s Share) bool { return s.Group == "all" })
	if i.Public || public || len(i.Watermarks) == watermarksMost {
		return out, endpoint.Fail("OperationNotPermitted", "The image %s cannot have another watermark", in.ImageId)
	}
	i.Watermarks = append(slices.Clone(i.Watermarks), Watermark{out.Key, in.ImageId, region})
	return out, nil
}

// ancestor is an image with the one that it was made from.
type ancestor struct {
	ID     string `xml:"imageId"`
	Alias  string `xml:"imageOwnerAlias,omitempty"`
	Source string `xml:"sourceImageId,omitempty"`
	Region string `xml:"sourceImageRegion,omitempty"`
}

type ancestryOut struct {
	Entries []ancestor `xml:"imageAncestryEntrySet>item"`
}

// ancestryMost is the limit of entries. The list ends with it, with an image of a verified
// provider, or with one that RegisterImage made. An image of an instance descends from the
// image of the instance (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ami-ancestry.html).
const ancestryMost = 50

func (w *World) imageAncestry(region string, in struct{ ImageId string }) (out ancestryOut, err error) {
	i, err := find(w.Images, region, in.ImageId, "InvalidAMIID.NotFound")
	for err == nil && len(out.Entries) < ancestryMost {
		out.Entries = append(out.Entries, ancestor{i.ID, i.Alias, i.Source, i.SourceRegion})
		if i.Alias != "" || i.Source == "" {
			break
		}
		if i, err = find(w.Images, cmp.Or(i.SourceRegion, region), i.Source, "InvalidAMIID.NotFound"); err != nil {
			return out, nil // the source is gone; the entry still names it
		}
	}
	return out, err
}

func (w *World) detachWatermark(region string, in struct{ ImageId, WatermarkKey string }) (done, error) {
	i, err := w.ownImage(region, in.ImageId)
	if err != nil {
		return done{}, err
	}
	i.Watermarks = slices.DeleteFunc(slices.Clone(i.Watermarks),
		func(m Watermark) bool { return m.Key == in.WatermarkKey })
	return done{true}, nil
}

// AllowedImages are the settings that say which images of others may start. A launch with
// another image fails in the state enabled
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-allowed-amis.html).
type AllowedImages struct {
	State     string      `xml:"state"`
	ManagedBy string      `xml:"managedBy"`
	Criteria  []Criterion `xml:"imageCriterionSet>item"`
}

// Criterion allows images with one of the watermarks, by patterns of their keys, or of one of
// the providers.
type Criterion struct {
	Watermarks []watermarkOut `xml:"imageWatermarkSet>item"`
	Providers  []string       `xml:"imageProviderSet>item"`
}

func (w *World) allowedImages(string, struct{}) (AllowedImages, error) {
	if w.Allowed.State == "" {
		w.Allowed.State, w.Allowed.ManagedBy = "disabled", "account"
	}
	return w.Allowed, nil
}

type allowedState struct {
	State string `xml:"allowedImagesSettingsState" query:"AllowedImagesSettingsState"`
}

func (w *World) setAllowedState(_ string, in allowedState) (allowedState, error) {
	in.State = cmp.Or(in.State, "disabled")
	w.Allowed.State, w.Allowed.ManagedBy = in.State, "account"
	return in, nil
}

// setCriteria replaces all criteria, in any state
// (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReplaceImageCriteriaInAllowedImagesSettings.html).
func (w *World) setCriteria(_ string, in struct {
	Criteria []struct {
		Watermarks []watermarkOut `query:"ImageWatermark"`
		Providers  []string       `query:"ImageProvider"`
	} `query:"ImageCriterion"`
}) (done, error) {
	w.Allowed.Criteria = nil
	for _, c := range in.Criteria {
		w.Allowed.Criteria = append(w.Allowed.Criteria, Criterion{c.Watermarks, c.Providers})
	}
	return done{true}, nil
}

// refused is the error of a launch with an image that the settings do not allow. Images of
// the account itself are always allowed.
func (w *World) refused(i *Image) error {
	if w.Allowed.State != "enabled" || i.Owner == Account {
		return nil
	}
	for _, c := range w.Allowed.Criteria {
		for _, pattern := range c.Watermarks {
			if slices.ContainsFunc(i.Watermarks, func(m Watermark) bool { return wildcard(pattern.Key, m.Key) }) {
				return nil
			}
		}
	}
	return endpoint.Fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", i.ID)
}

// WithWatermarks are criteria that allow the watermarks with these patterns.
func WithWatermarks(patterns ...string) []Criterion {
	var c Criterion
	for _, pattern := range patterns {
		c.Watermarks = append(c.Watermarks, watermarkOut{pattern})
	}
	return []Criterion{c}
}

// Starts returns the error of a launch of an image.
func (w *World) Starts(image string) error {
	_, err := w.try(Region, "ec2:RunInstances", "ImageId", image, "MinCount", "1", "MaxCount", "1")
	return err
}
