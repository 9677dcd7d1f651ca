package rules

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
	"github.com/eksnode/packer-plugin-eksnode/scrub/secrets"
)

// MachineIDs returns the IDs of this machine: the machine ID, its copies, the
// names by which the journal and boot entries carry it, the instance's IDs that
// cloud-init has, and the API servers of its kubeconfigs. A scrub reads them first
// and gives them to its audit.
func MachineIDs(h *host.Host) ([]string, error) {
	d := &rule.Draft{Host: h}
	var ids []string
	for _, name := range []string{
		"/etc/machine-id", "/var/lib/dbus/machine-id", entryToken, "/var/lib/cloud/data/instance-id",
		"/var/lib/cloud/data/previous-instance-id",
	} {
		id := strings.ToLower(strings.TrimSpace(string(d.Small(name))))
		if isMachineID(id) || instanceUUID.MatchString(id) || ec2Instance.MatchString(id) {
			ids = append(ids, id)
		}
	}
	instance := d.Small("/run/cloud-init/instance-data.json") // only a running machine has it
	for _, re := range ofInstance {
		for _, m := range re.FindAllSubmatch(instance, -1) {
			ids = append(ids, string(m[1]))
		}
	}
	for _, name := range d.Known(
		"/var/log/journal/*", "/boot/*", "/boot/efi/*", "/efi/*", "/boot/loader/entries/*.conf",
		"/boot/efi/loader/entries/*.conf", "/efi/loader/entries/*.conf",
	) {
		if id, _, _ := strings.Cut(path.Base(name), "-"); isMachineID(id) {
			ids = append(ids, id)
		}
	}
	// A scrub removes the kubeconfigs, and its audit searches other files for their hosts.
	for _, name := range d.Known(secrets.NamingServers...) {
		ids = append(ids, serversIn(string(d.Small(name)))...)
	}
	if d.Err != nil {
		return nil, fmt.Errorf("listing the IDs of this machine: %w", d.Err)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

var instanceUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

var macAddress = regexp.MustCompile(`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`)

var ec2Instance = regexp.MustCompile(`^i-([0-9a-f]{17}|[0-9a-f]{8})$`)

// ofInstance match what identifies an EC2 instance, its account and its network
// interfaces in cloud-init's copy of the metadata.
var ofInstance = []*regexp.Regexp{
	regexp.MustCompile(`"(i-[0-9a-f]{8,17})"`), regexp.MustCompile(`"(eni-[0-9a-f]{8,17})"`),
	regexp.MustCompile(`"account-?[iI]d": ?"(\d{12})"`), regexp.MustCompile(`"owner-id": ?"(\d{12})"`),
	regexp.MustCompile(`"mac": ?"((?:[0-9a-f]{2}:){5}[0-9a-f]{2})"`),
}

// oldIDsLeft reports names anywhere, and contents in searchedForIDs, with an ID from before a
// scrub, or one that the machine has now.
func oldIDsLeft(d *rule.Draft) {
	ids, err := MachineIDs(d.Host)
	if d.Failed(err) {
		return
	}
	ids = append(ids, d.IDs...)
	slices.Sort(ids)
	var patterns []secrets.Pattern
	for _, id := range slices.Compact(ids) {
		kind := "the machine's id from before the scrub"
		if strings.ContainsAny(id, ".:") && !macAddress.MatchString(id) {
			kind = "the old cluster's API server"
		}
		patterns = append(patterns, secrets.Pattern{Kind: kind, Hints: []string{id[:8]}, Re: secrets.AnyForm(id)})
	}
	findings := namesWith(d, append(slices.Clone(patterns), namesOfEC2))
	if id := strings.TrimSpace(string(d.Small("/etc/machine-id"))); id != "" { // the rule host-ids-left searches for it
		patterns = slices.DeleteFunc(patterns, func(p secrets.Pattern) bool { return p.Re().MatchString(id) })
	}
	if len(patterns) == 0 || d.Err != nil {
		return
	}
	found, err := secrets.Search{Taken: d.Taken, Words: secrets.NewIndex(patterns)}.In(d.Ctx, d.Host, searchedForIDs...)
	d.Found(slices.DeleteFunc(found, func(f plan.Finding) bool {
		return idsOwn(f.Target) || d.Taken.By(f.Target, plan.Restore, plan.Write) || rule.About(findings, f.Target)
	})...)
	d.Failed(err)
}

// namesOfEC2 matches names of an instance, an interface and a host that is not
// known.
var namesOfEC2 = secrets.Pattern{
	Re: rule.Expression(`^i-[0-9a-f]{8}$|\b(i|eni)-[0-9a-f]{17}\b|\bip(-\d{1,3}){4}\b`),
}

// namesWith reports files and folders whose names carry an ID and that no other
// rule removes or renames.
func namesWith(d *rule.Draft, ids []secrets.Pattern) (findings []plan.Finding) {
	var errs []error
	seen := map[string]bool{}
	for _, top := range d.Tops() {
		_, err := d.Host.Files.Walk(d.Ctx, top, path.Dir(top), func(e host.Entry, err error) error {
			switch {
			case err != nil:
				errs = append(errs, err)
				return nil
			case e.IsDir() && (rule.Kept(namesNotSearched, e.Path) || d.Taken.InWalk(top, e.Path)) || seen[e.Path]:
				return skipFolder(e)
			case d.Taken.InWalk(top, e.Path) || d.Taken.By(e.Path, plan.Write):
				return nil
			}
			seen[e.Path] = true
			base := path.Base(e.Path)
			if slices.ContainsFunc(ids, func(p secrets.Pattern) bool { return p.Re().MatchString(base) }) {
				findings = append(findings, plan.Finding{Target: e.Path, Reason: "its name carries the builder " +
					"machine's ID: rename or remove it"})
				return skipFolder(e)
			}
			return nil
		})
		errs = append(errs, err)
	}
	d.Found(findings...)
	d.Failed(errors.Join(errs...))
	return findings
}

// namesNotSearched are folders of data whose names are digests or people's.
var namesNotSearched = []string{"/var/lib/containerd", "/var/lib/docker", "/var/lib/kubelet/pods",
	"/var/lib/containers"}

// skipFolder leaves a folder's contents out.
func skipFolder(e host.Entry) error {
	if e.IsDir() {
		return fs.SkipDir
	}
	return nil
}
