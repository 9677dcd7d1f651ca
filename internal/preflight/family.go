package preflight

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// reads are the families of user data that images with certain names read.
type reads struct {
	// name is a pattern of image names.
	name     string
	families []string
}

// published are EKS's own images and those built with its recipes, by their names.
func published() []reads {
	return []reads{
		{`^amazon-eks-node-al2023-`, []string{"al2023"}},
		{`^amazon-eks-(gpu-|arm64-)?node-[0-9]`, []string{"al2"}},
		{`^bottlerocket-`, []string{"bottlerocket"}},
		{`^Windows_Server-.*EKS_Optimized`, []string{"windows"}},
		{`^ubuntu-eks/`, []string{"ubuntu", "al2"}},
	}
}

var namePatterns = sync.OnceValue(func() []*regexp.Regexp {
	var list []*regexp.Regexp
	for _, p := range published() {
		list = append(list, regexp.MustCompile(p.name))
	}
	return list
})

// readBy returns the families that an image reads, or nil when they are unknown.
func readBy(i awsapi.Image) []string {
	for n, p := range namePatterns() {
		if p.MatchString(i.Name) {
			return published()[n].families
		}
	}
	switch _, own := i.Tags[awsapi.TagPrefix+"distro"]; {
	case i.Platform == "windows":
		return []string{"windows"}
	case own:
		return []string{"al2023", "al2", "ubuntu"}
	default:
		return nil
	}
}

// fits returns the fault when the image does not read this family of user data, or
// nil.
func (f *facts) fits(family string) *result {
	i := f.image.value
	if f.image.err != nil || f.image.absent {
		return nil
	}
	known := readBy(i)
	var r result
	switch {
	case known == nil && family == "windows":
		r = bad(f.userDataOf("al2023"), "the user data is for windows, but the image's platform is %q", i.Platform)
	case known == nil || slices.Contains(known, family):
		return nil
	case i.OwnerAlias == "" && i.Platform != "windows" && i.Tags[awsapi.TagPrefix+"distro"] == "":
		r = maybe(f.userDataOf(known[0]), "the user data is for %s, but images named %s read %s", family, i.Name, strings.Join(known, ", "))
	default:
		r = bad(f.userDataOf(known[0]), "the user data is for %s, but %s (%s) reads %s", family, i.ID, i.Name, strings.Join(known, ", "))
	}
	return &r
}

// userDataOf is the command that writes user data of a family.
func (f *facts) userDataOf(family string) string {
	return fmt.Sprintf("eksnode userdata render --family %s --cluster %s", family, f.target.Cluster)
}

// family is the best family for the image.
func (f *facts) family() string {
	if family := familyOf(f.group.value.AMIType); family != "" {
		return family
	}
	if known := readBy(f.image.value); known != nil {
		return known[0]
	}
	return "al2023"
}
