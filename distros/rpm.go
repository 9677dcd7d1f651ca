package distros

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/scrub"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// rpmPaths are the folders of rpm's database.
var rpmPaths = []string{"/var/lib/rpm", "/usr/lib/sysimage/rpm"}

// rpmState reports packages that rpm has in several versions: rpm installs the
// new version first, and a killed rpm does not remove the old one.
func rpmState(heal string) func(*scrub.Draft) {
	return func(d *scrub.Draft) {
		rpms, err := packages.RPMs(d.Ctx, d.Host)
		if err != nil {
			d.Failed(fmt.Errorf("reading the state of packages: %w", err))
		}
		duplicates(d, rpms, heal)
	}
}

func duplicates(d *scrub.Draft, rpms []packages.RPM, heal string) {
	versions := map[string][]string{}
	for _, p := range rpms {
		if !besideEachOther(p) {
			name := p.Name + "." + p.Arch
			versions[name] = append(versions[name], plainName(p.Version))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		if have := versions[name]; len(have) > 1 {
			slices.Sort(have)
			d.Find(plainName(name), fmt.Sprintf("rpm has the versions %s, so an installation was interrupted: %s",
				strings.Join(have, " and "), heal))
		}
	}
}

// besideEachOther reports whether several versions of a package belong
// together: kernels, and the keys of repositories.
func besideEachOther(p packages.RPM) bool {
	return p.Name == "gpg-pubkey" || strings.HasPrefix(p.Name, "kernel") ||
		slices.ContainsFunc(p.Provides, func(name string) bool {
			return strings.HasPrefix(name, "installonlypkg(") || strings.HasPrefix(name, "multiversion(")
		})
}

// yumState is rpmState with yum's own journals: a list of remaining actions in a
// transaction, which yum removes at the end.
func yumState(d *scrub.Draft) {
	for _, journal := range d.Matching(d.Paths[0]) {
		d.Find(path.Join(path.Dir(journal), plainName(path.Base(journal))),
			`yum was interrupted: run "yum-complete-transaction" of the package yum-utils`)
	}
	rpmState(`run "package-cleanup --cleandupes" of the package yum-utils`)(d)
}
