//go:build linux

package aws

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Tag is a tag.
type Tag struct {
	Key   string `xml:"key" query:"Key"`
	Value string `xml:"value" query:"Value"`
}

// Image is an AMI. moto has images too, but keeps little more than their names.
type Image struct {
	// Region is the image's region, empty for all regions.
	Region         string `xml:"-"`
	ID             string `xml:"imageId"`
	Name           string `xml:"name"`
	Description    string `xml:"description,omitempty"`
	Owner          string `xml:"imageOwnerId"`
	Alias          string `xml:"imageOwnerAlias,omitempty"`
	State          string `xml:"imageState"`
	Public         bool   `xml:"isPublic"`
	Architecture   string `xml:"architecture"`
	Type           string `xml:"imageType"`
	Created        string `xml:"creationDate"`
	Deprecated     string `xml:"deprecationTime,omitempty"`
	RootDevice     string `xml:"rootDeviceName"`
	RootType       string `xml:"rootDeviceType"`
	Virtualization string `xml:"virtualizationType"`
	Platform       string `xml:"platform,omitempty"`
	ENA            bool   `xml:"enaSupport"`
	IMDS           string `xml:"imdsSupport,omitempty"`
	BootMode       string `xml:"bootMode,omitempty"`
	TPM            string `xml:"tpmSupport,omitempty"`
	SourceInstance string `xml:"sourceInstanceId,omitempty"`
	// Source and SourceRegion name the image that this one was copied from, or the
	// image of the instance that this one was made from.
	Source       string      `xml:"sourceImageId,omitempty"`
	SourceRegion string      `xml:"sourceImageRegion,omitempty"`
	Protection   string      `xml:"deregistrationProtection,omitempty"`
	Launched     string      `xml:"-"` // time of the last launch
	Devices      []Drive     `xml:"blockDeviceMapping>item"`
	Tags         []Tag       `xml:"tagSet>item"`
	Shares       []Share     `xml:"-"`
	UEFI         string      `xml:"-"` // variable store in Base64
	Watermarks   []Watermark `xml:"imageWatermarkSet>item"`
	// User is the login name on instances of the image. Disk is their boot disk.
	User string `xml:"-"`
	Disk Disk   `xml:"-"`
}

// Drive is a block device of an image.
type Drive struct {
	Name      string `xml:"deviceName"`
	Snapshot  string `xml:"ebs>snapshotId"`
	Size      int    `xml:"ebs>volumeSize,omitempty"`
	Type      string `xml:"ebs>volumeType,omitempty"`
	Encrypted bool   `xml:"ebs>encrypted"`
}

// Share is a permission to use an image or a snapshot.
type Share struct {
	Account      string `xml:"userId,omitempty" query:"UserId"`
	Group        string `xml:"group,omitempty" query:"Group"`
	Organization string `xml:"organizationArn,omitempty"`
	Unit         string `xml:"organizationalUnitArn,omitempty"`
}

// Snapshot is a copy of a volume.
type Snapshot struct {
	Region string `xml:"-"`
	ID     string `xml:"snapshotId"`
	Volume string `xml:"volumeId,omitempty"`
	// Started is an RFC 3339 time.
	Started     string  `xml:"startTime,omitempty"`
	Description string  `xml:"description,omitempty"`
	State       string  `xml:"status"`
	Message     string  `xml:"statusMessage,omitempty"`
	Progress    string  `xml:"progress,omitempty"`
	Owner       string  `xml:"ownerId"`
	Size        int     `xml:"volumeSize"`
	Encrypted   bool    `xml:"encrypted"`
	KMSKey      string  `xml:"kmsKeyId,omitempty"`
	Tier        string  `xml:"storageTier,omitempty"`
	Outpost     string  `xml:"outpostArn,omitempty"`
	Tags        []Tag   `xml:"tagSet>item"`
	Shares      []Share `xml:"-"`
	Disk        Disk    `xml:"-"`

	inUse int // deletions that still fail after the deregistration of an image
}

// NewImage returns an available image of an account, for x86_64 and with ENA.
func NewImage(id, name, owner, created string) *Image {
	return &Image{
		ID: id, Name: name, Owner: owner, Created: created, State: "available", Architecture: "x86_64", Type: "machine",
		RootDevice: "/dev/xvda", RootType: "ebs", Virtualization: "hvm", ENA: true,
	}
}

// Image finds an image by its id or its name. It returns nil if there is none.
func (w *World) Image(named string) *Image {
	i := slices.IndexFunc(w.Images, func(i *Image) bool { return i.ID == named || i.Name == named })
	if i < 0 {
		return nil
	}
	return w.Images[i]
}

// SnapshotIDs returns the ids of all snapshots.
func (w *World) SnapshotIDs() []string {
	return show.Each(w.Snapshots, func(s *Snapshot) string { return s.ID })
}

// place is a region and an id.
type place interface {
	at() (region, id, owner string)
}

func (i *Image) at() (region, id, owner string)    { return i.Region, i.ID, i.Owner }
func (s *Snapshot) at() (region, id, owner string) { return s.Region, s.ID, s.Owner }

// find finds an object by its id in a region. Without one, it returns an error
// with the code.
func find[R place](all []R, region, id, missing string) (found R, err error) {
	i := slices.IndexFunc(all, func(r R) bool {
		in, named, _ := r.at()
		return named == id && (in == "" || in == region)
	})
	if i < 0 {
		return found, endpoint.Fail(missing, "The ID '%s' does not exist", id)
	}
	return all[i], nil
}

// mine finds an object that the caller's account owns and may change.
func mine[R place](all []R, region, id, missing, denied string) (found R, err error) {
	if found, err = find(all, region, id, missing); err != nil {
		return found, err
	}
	if _, _, owner := found.at(); owner != Account {
		return found, endpoint.Fail(denied, "Not authorized for %s", id)
	}
	return found, nil
}

func (w *World) ownImage(region, id string) (*Image, error) {
	i, err := mine(w.Images, region, id, "InvalidAMIID.NotFound", "AuthFailure")
	return visible(w, i, err, id, "InvalidAMIID.NotFound")
}

func (w *World) ownSnapshot(region, id string) (*Snapshot, error) {
	s, err := mine(w.Snapshots, region, id, "InvalidSnapshot.NotFound", "UnauthorizedOperation")
	return visible(w, s, err, id, "InvalidSnapshot.NotFound")
}

type filter struct {
	Name  string
	Value []string
}

// passes reports whether an object passes all filters. A filter without an
// attribute is refused.
func passes(filters []filter, attributes map[string]string, tags []Tag) (bool, error) {
	for _, f := range filters {
		value, there := attributes[f.Name]
		if key, isTag := strings.CutPrefix(f.Name, "tag:"); isTag {
			i := slices.IndexFunc(tags, func(t Tag) bool { return t.Key == key })
			if i < 0 {
				return false, nil
			}
			value, there = tags[i].Value, true
		}
		if f.Name == "tag-key" {
			if !slices.ContainsFunc(tags, func(t Tag) bool { return slices.Contains(f.Value, t.Key) }) {
				return false, nil
			}
			continue
		}
		if !there {
			return false, endpoint.Refuse("the filter %q", f.Name)
		}
		if !slices.ContainsFunc(f.Value, func(pattern string) bool { return wildcard(pattern, value) }) {
			return false, nil
		}
	}
	return true, nil
}

// wildcard matches like EC2's filters: * is any text, ? is any one character
// (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html).
func wildcard(pattern, value string) bool {
	if pattern == "" {
		return value == ""
	}
	if pattern[0] == '*' {
		return wildcard(pattern[1:], value) || value != "" && wildcard(pattern, value[1:])
	}
	return value != "" && (pattern[0] == '?' || pattern[0] == value[0]) && wildcard(pattern[1:], value[1:])
}

// listIn has the parameters that select images or snapshots.
type listIn struct {
	ImageId, SnapshotId, Owner         []string
	Filter                             []filter
	IncludeDeprecated, IncludeDisabled bool
	MaxResults                         int
}

func selected[R place](all []R, region string, ids []string, missing string, in listIn, look func(R) (alias string, attributes map[string]string, tags []Tag)) ([]R, error) {
	for _, id := range ids {
		if _, err := find(all, region, id, missing); err != nil {
			return nil, err
		}
	}
	var chosen []R
	for _, r := range all {
		at, id, owner := r.at()
		alias, attributes, tags := look(r)
		owned := len(in.Owner) == 0 || slices.Contains(in.Owner, owner) || slices.Contains(in.Owner,
			cmp.Or(alias, owner)) ||
			owner == Account && slices.Contains(in.Owner, "self")
		if at != "" && at != region || !owned || len(ids) > 0 && !slices.Contains(ids, id) {
			continue
		}
		pass, err := passes(in.Filter, attributes, tags)
		if err != nil {
			return nil, err
		}
		if pass {
			chosen = append(chosen, r)
		}
	}
	return chosen, nil
}

type imagesOut struct {
	Images []*Image `xml:"imagesSet>item"`
}

func (w *World) describeImages(region string, in listIn) (imagesOut, error) {
	all := still(w, w.Images, w.front.goneImages)
	chosen, err := selected(all, region, in.ImageId, "InvalidAMIID.NotFound", in, func(i *Image) (string,
		map[string]string, []Tag) {
		return i.Alias, map[string]string{
			"image-id": i.ID, "name": i.Name, "owner-id": i.Owner, "architecture": i.Architecture, "root-device-name": i.RootDevice,
			"root-device-type": i.RootType, "virtualization-type": i.Virtualization, "image-type": i.Type, "state": i.State,
			"ena-support": strconv.FormatBool(i.ENA), "is-public": strconv.FormatBool(i.Public),
		}, i.Tags
	})
	if err == nil {
		chosen, err = seen(w, chosen, in.ImageId, "InvalidAMIID.NotFound", pendingImage)
	}
	return imagesOut{chosen}, err
}

type done struct {
	Return bool `xml:"return"`
}

type deregisteredOut struct {
	done
	Deleted []deletedSnapshot `xml:"deleteSnapshotResultSet>item"`
}

// deletedSnapshot has one of the codes of
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteSnapshotReturnCode.html.
type deletedSnapshot struct {
	ID   string `xml:"snapshotId"`
	Code string `xml:"returnCode"`
}

type imageIn struct {
	ImageId, DeprecateAt, Attribute string
	// DeleteAssociatedSnapshots deletes those that no other image has.
	DeleteAssociatedSnapshots bool
}

type sharesOut struct {
	Launch   []Share `xml:"launchPermission>item"`
	Volume   []Share `xml:"createVolumePermission>item"`
	Launched string  `xml:"lastLaunchedTime>value,omitempty"`
	UEFI     string  `xml:"uefiData>value,omitempty"`
}

func (w *World) describeImageAttribute(region string, in imageIn) (sharesOut, error) {
	i, err := w.ownImage(region, in.ImageId)
	switch {
	case err != nil:
		return sharesOut{}, err
	case in.Attribute == "launchPermission":
		return sharesOut{Launch: i.Shares}, nil
	case in.Attribute == "uefiData":
		return sharesOut{UEFI: i.UEFI}, nil
	case in.Attribute == "lastLaunchedTime":
		return sharesOut{Launched: i.Launched}, nil
	}
	return sharesOut{}, endpoint.Refuse("the attribute %q", in.Attribute)
}

// permission is an entry of the list of accounts that share an image. Clients
// send the same entry in older forms too.
type permission struct{ Add []Share }

type attributeValue struct{ Value string }

func (w *World) modifyImage(region string, in struct {
	ImageId                  string
	Description, ImdsSupport *attributeValue
	LaunchPermission         permission
	UserGroup, UserId        []string
}) (done, error) {
	i, err := w.ownImage(region, in.ImageId)
	if err != nil {
		return done{}, err
	}
	if in.Description != nil {
		i.Description = in.Description.Value
	}
	if in.ImdsSupport != nil {
		if i.IMDS = in.ImdsSupport.Value; i.IMDS != "v2.0" {
			return done{}, endpoint.Fail("InvalidParameterValue", "imdsSupport '%s'", i.IMDS)
		}
	}
	i.Shares = shared(i.Shares, in.LaunchPermission)
	i.Public = slices.ContainsFunc(i.Shares, func(s Share) bool { return s.Group == "all" })
	return done{true}, nil
}

func shared(before []Share, p permission) []Share {
	for _, one := range p.Add {
		if !slices.Contains(before, one) {
			before = append(before, one)
		}
	}
	return before
}

func (w *World) deregister(region string, in imageIn) (deregisteredOut, error) {
	gone, err := w.ownImage(region, in.ImageId)
	if err != nil {
		return deregisteredOut{}, err
	}
	if strings.HasPrefix(gone.Protection, "enabled") {
		return deregisteredOut{}, endpoint.Fail("OperationNotPermitted",
			"The image '%s' is protected from deregistration", in.ImageId)
	}
	w.Images = slices.DeleteFunc(w.Images, func(i *Image) bool { return i == gone })
	w.died(gone)
	for _, s := range w.Snapshots {
		if slices.ContainsFunc(gone.Devices, func(d Drive) bool { return d.Snapshot == s.ID }) {
			s.inUse = w.front.InUse
		}
	}
	out := deregisteredOut{done: done{true}}
	for _, d := range gone.Devices {
		if in.DeleteAssociatedSnapshots {
			out.Deleted = append(out.Deleted, deletedSnapshot{d.Snapshot, w.deleteWith(region, d.Snapshot)})
		}
	}
	return out, nil
}

// deleteWith deletes a snapshot with its image and returns the code of the result.
func (w *World) deleteWith(region, id string) string {
	if !w.allowed("ec2:DeleteSnapshot", "arn:aws:ec2:"+region+"::snapshot/"+id, nil) {
		return "missing-permissions"
	}
	if w.fault("ec2:DeleteSnapshot", region) != nil {
		return "internal-error"
	}
	if s, err := w.ownSnapshot(region, id); err == nil {
		s.inUse = 0 // EC2 knows that the image is gone
	}
	if _, err := w.deleteSnapshot(region, snapshotIn{SnapshotId: id}); err != nil {
		return "skipped"
	}
	return "success"
}
