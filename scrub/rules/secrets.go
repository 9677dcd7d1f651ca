package rules

import (
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
	"github.com/eksnode/packer-plugin-eksnode/scrub/secrets"
)

// secretsLeft searches everything but the unchanged files of packages. Without a
// readable database of packages it searches those too.
func secretsLeft(d *rule.Draft) {
	known := d.Originals
	if known.Read(d.Ctx, d.Host) != nil {
		known = nil // the rule changed-files has the error
	}
	found, err := secrets.Search{Taken: d.Taken, Words: secrets.NewIndex(secrets.All()), Keys: true,
		Known: known}.In(d.Ctx, d.Host, d.Tops()...)
	d.Found(found...)
	d.Failed(err)
}

// hostIDsLeft reports IDs of the builder machine and of the old cluster.
func hostIDsLeft(d *rule.Draft) {
	patterns := slices.Clone(secrets.HostPatterns)
	for kind, name := range map[string]string{
		"this machine's id": "/etc/machine-id", "this machine's DMI UUID": "/sys/class/dmi/id/product_uuid",
	} {
		if id := strings.TrimSpace(string(d.Small(name))); len(id) >= 32 {
			patterns = append(patterns,
				secrets.Pattern{Kind: kind, Hints: []string{strings.ToLower(id[:8])}, Re: secrets.AnyForm(id)})
		}
	}
	if d.Err != nil {
		return
	}
	found, err := secrets.Search{Taken: d.Taken, Words: secrets.NewIndex(patterns)}.In(d.Ctx, d.Host, d.Tops()...)
	d.Found(slices.DeleteFunc(found, func(a plan.Finding) bool {
		return idsOwn(a.Target) || d.Taken.By(a.Target, plan.Restore, plan.Write) || reportedIn(d.Host, a.Target)
	})...)
	d.Failed(err)
}

func reportedIn(h *host.Host, name string) bool {
	programs := slices.Concat(rowOf("enrolled-agents").Programs, rowOf("host-names").Programs)
	return slices.ContainsFunc(programs, func(p program) bool {
		d := &rule.Draft{Host: h}
		return rule.Kept(p.Paths, name) && p.in(d, name) && d.Err == nil
	})
}

var searchedForIDs = []string{"/etc", "/home", "/opt", "/root", "/srv", "/usr/local", "/var/db", "/var/lib", "/var/opt"}

// idsOwn reports whether a file is the place for the machine's own ID. The rule
// cloud-init covers cloud-init's files, but not the scripts of the image. A
// platform may mount the seed with the machine's ID.
func idsOwn(name string) bool {
	return name == "/etc/machine-id" || name == "/var/lib/dbus/machine-id" ||
		strings.HasPrefix(name, "/var/lib/cloud/") && !strings.HasPrefix(name, "/var/lib/cloud/scripts/")
}
