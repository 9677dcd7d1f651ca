//go:build linux

package aws

import (
	"regexp"
	"slices"
	"strings"
)

// Inventory lists what exists in regions, without other accounts' images and
// without networks. These are the objects that a user would pay for or have to
// clean up. A line is a kind, an identifier and, if set, a name.
func (w *World) Inventory(regions ...string) []string {
	w.t.Helper()
	var lines []string
	for _, i := range w.Images {
		if i.Owner == Account && slices.Contains(regions, i.Region) {
			lines = append(lines, "image "+i.ID+" "+i.Name)
		}
	}
	for _, s := range w.Snapshots {
		if s.Owner == Account && slices.Contains(regions, s.Region) {
			lines = append(lines, "snapshot "+s.ID)
		}
	}
	for _, region := range regions {
		for _, list := range []struct{ kind, action, pattern, not string }{
			{"instance", "DescribeInstances", `(?s)<instanceId>(i-\w+)</instanceId>\s*<imageId>.*?<name>(\S+)</name>`, "terminated"},
			{"volume", "DescribeVolumes", `<volumeId>(vol-\w+)</volumeId>\s*<size>()`, "-"},
			{"key pair", "DescribeKeyPairs", `<keyPairId>(\S+)</keyPairId>()`, "-"},
			{"security group", "DescribeSecurityGroups", `<groupId>(sg-\w+)</groupId>\s*<groupName>([^<]+)</groupName>\s*<groupDescription>`, "default"},
		} {
			for _, found := range regexp.MustCompile(list.pattern).FindAllStringSubmatch(string(w.DoIn(region, "ec2:"+list.action)), -1) {
				if found[2] != list.not {
					lines = append(lines, strings.TrimSpace(list.kind+" "+found[1]+" "+found[2]))
				}
			}
		}
	}
	return lines
}
