package ec2

import (
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// Tag is a tag of anything that has an identifier.
type Tag struct {
	Key   string `xml:"key" query:"Key"`
	Value string `xml:"value" query:"Value"`
}

// tagSpecification is the tags for one kind of what a call makes.
type tagSpecification struct {
	ResourceType string `query:"ResourceType"`
	Tags         []Tag  `query:"Tag"`
}

// tagsFor picks the tags for what a call makes and refuses those for anything
// else.
func tagsFor(specifications []tagSpecification, kinds ...string) (map[string][]Tag, error) {
	tags := map[string][]Tag{}
	for _, specification := range specifications {
		if !slices.Contains(kinds, specification.ResourceType) {
			return nil, endpoint.Refuse("tags for %q: the call makes %q", specification.ResourceType, kinds)
		}
		tags[specification.ResourceType] = append(tags[specification.ResourceType], specification.Tags...)
	}
	return tags, nil
}

// tag adds tags to a resource; of the same key, the newer wins. The list is made
// anew, since the old one may be on its way to a client.
func (d *Double) tag(id string, tags []Tag) {
	all := slices.Clone(d.tags[id])
	for _, tag := range tags {
		all = slices.DeleteFunc(all, func(old Tag) bool { return old.Key == tag.Key })
		all = append(all, tag)
	}
	d.tags[id] = all
}

type createTagsIn struct {
	Resources []string `query:"ResourceId"`
	Tags      []Tag    `query:"Tag"`
}

type done struct {
	Return bool `xml:"return"`
}

func (d *Double) createTags(region string, in createTagsIn) (done, error) {
	for _, id := range in.Resources {
		if !d.exists(region, id) {
			return done{}, endpoint.Fail("InvalidID", "the ID %q does not exist", id)
		}
	}
	for _, id := range in.Resources {
		d.tag(id, in.Tags)
	}
	return done{Return: true}, nil
}

// exists tells whether there is a resource that can be tagged after it has been
// made.
func (d *Double) exists(region, id string) bool {
	at := place{region: region, id: id}
	return slices.ContainsFunc(d.images, func(i *image) bool { return i.place == at }) ||
		slices.ContainsFunc(d.snapshots, func(s *snapshot) bool { return s.place == at }) ||
		slices.ContainsFunc(d.instances, func(i *instance) bool { return i.place == at }) ||
		slices.ContainsFunc(d.volumes, func(v *volume) bool { return v.place == at })
}

// place is where a resource is and what it is called there.
type place struct{ region, id string }
