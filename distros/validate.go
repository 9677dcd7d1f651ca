package distros

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// mayBeEmpty lists the optional fields: most distributions need none of the first
// ones, and the last ones only describe a distribution to people.
var mayBeEmpty = []string{
	"Versions", "NewestKubernetes", "Release", "Repositories", "PackagesOf", "Upstream", "Quirks", "Scrub", "NVIDIA",
	"Guide", "Tested", "Differs", "DefaultUser", "BaseImages", "CloudImages",
}

// Validate returns every empty field and every contradiction in the value, one per
// line. Steps and rules rely on a value that Validate accepts.
func (d Distro) Validate() error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf("distribution %q: "+format, append([]any{d.ID}, args...)...))
		}
	}
	v := reflect.ValueOf(d)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		wrong(!slices.Contains(mayBeEmpty, name) && v.Field(i).IsZero(), "%s is empty", name)
	}
	for _, role := range Roles {
		_, decided := d.Packages[role]
		wrong(!decided, "Packages has no entry for %s; an empty list means that no package is needed", role)
	}
	wrong(len(d.Packages) > len(Roles), "Packages has a role that no plan knows")
	for version, more := range d.PackagesOf {
		wrong(!slices.Contains(d.Versions, version), "PackagesOf: the version %q is none of Versions", version)
		for role := range more {
			wrong(!slices.Contains(Roles, role), "PackagesOf: no plan knows the role %q", role)
		}
	}
	if d.PackageManager != nil {
		wrong(!d.HasPackages() && len(d.AllPackages()) > 0, "Packages lists packages, but there is no package manager")
	}
	for option := range d.OptionPackages {
		wrong(!slices.Contains(Options, option), "OptionPackages: no step knows the option %q", option)
		wrong(d.PackageManager != nil && slices.Contains(d.OptionPackages[option], aHeaders) &&
			d.PackageManager.Kernels().Headers == "", "OptionPackages: %q needs Kernels of the package manager", option)
	}
	wrong((d.FIPS.Enable == "") == (d.FIPS.None == ""), "FIPS: set either Enable or None")
	d.checkReleases(wrong)
	d.checkSettings(wrong)
	return errors.Join(errs...)
}

func (d Distro) checkReleases(wrong func(bool, string, ...any)) {
	for version, f := range d.Releases {
		wrong(!d.covers(version), "Releases: the release %q is none of Versions", version)
		wrong((f.Containerd == "") != d.FromUpstream(), "Releases: set Containerd of %q, or list containerd in "+
			"Upstream, not both", version)
		for _, e := range f.Ends {
			_, err := time.Parse(time.DateOnly, e.Day)
			wrong(err != nil, "Releases: %q of %s is not a day", e.Day, e.Of)
		}
	}
	for _, v := range d.Versions {
		_, known := d.Releases[v]
		wrong(!known, "Releases has no entry for the version %s", v)
	}
}

func (d Distro) checkSettings(wrong func(bool, string, ...any)) {
	for field, name := range map[string]string{"Network": d.Network.Name, "Security": d.Security.Name,
		"Time": d.Time.Name, "Kernel": d.Kernel.Name} {
		wrong(name == "", "%s has no Name", field)
	}
	wrong(d.Kernel.File.Path == "" && len(d.Kernel.Take) == 0,
		"Kernel: set File or Take, or no argument reaches the kernel")
	wrong(len(d.Kernel.Take)+len(d.FIPS.Setup) > 0 && d.Kernel.TakenFile == "" && len(d.Kernel.TakenBy) == 0,
		"Kernel: set TakenFile or TakenBy, which show the arguments")
	wrong(d.Kernel.TakenFile != "" && len(d.Kernel.Default) == 0,
		"Kernel: set Default, which the boot loader needs for another kernel")
	for _, s := range d.Settings() {
		for _, f := range s.Files {
			wrong(!strings.HasPrefix(f.Path, "/etc/") || f.Content == "" || f.Why == "",
				"the file %q needs a path below /etc, a content and a reason", f.Path)
		}
		for _, m := range s.Masked {
			wrong(!strings.HasPrefix(m.Path, "/etc/") || m.Why == "",
				"the masked path %q needs a path below /etc and a reason", m.Path)
		}
	}
	readOnly := false
	for _, q := range d.Quirks {
		wrong(q.Name == "" || q.Why == "", "Quirks: the quirk %q needs a name and a reason", q.Name)
		readOnly = readOnly || q.Name == ReadOnlyUsr().Name
	}
	for _, f := range [][2]string{{"CommandFolder", d.CommandFolder}, {"UnitFolder", d.UnitFolder},
		{"CAAnchors", d.CAAnchors}, {"CABundle", d.CABundle}} {
		wrong(readOnly && strings.HasPrefix(f[1]+"/", "/usr/"), "%s is %s, but /usr is read-only", f[0], f[1])
	}
}
