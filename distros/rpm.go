package distros

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// rpmPaths are the folders of rpm's database.
var rpmPaths = []string{"/var/lib/rpm", "/usr/lib/sysimage/rpm"}

// yumJournal matches yum's list of remaining actions in a transaction; yum
// removes the file at the end.
const yumJournal = "/var/lib/yum/transaction-all.*"

// rpmState reports packages that rpm has in several versions: rpm installs the
// new version first, and a killed rpm does not remove the old one.
func rpmState(heal string) func(context.Context, *host.Host) (plan.Answer, error) {
	return func(ctx context.Context, h *host.Host) (plan.Answer, error) {
		rpms, err := packages.RPMs(ctx, h)
		if err != nil {
			return plan.Answer{}, fmt.Errorf("reading the state of packages: %w", err)
		}
		return duplicates(rpms, heal), nil
	}
}

func duplicates(rpms []packages.RPM, heal string) plan.Answer {
	versions := map[string][]string{}
	for _, p := range rpms {
		if !besideEachOther(p) {
			name := p.Name + "." + p.Arch
			versions[name] = append(versions[name], plainName(p.Version))
		}
	}
	var answer plan.Answer
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		if have := versions[name]; len(have) > 1 {
			slices.Sort(have)
			answer.Find(plainName(name), fmt.Sprintf("rpm has the versions %s, so an installation was interrupted: %s", strings.Join(have, " and "), heal))
		}
	}
	return answer
}

// besideEachOther reports whether several versions of a package belong
// together: kernels, and the keys of repositories.
func besideEachOther(p packages.RPM) bool {
	return p.Name == "gpg-pubkey" || strings.HasPrefix(p.Name, "kernel") || slices.ContainsFunc(p.Provides, func(name string) bool {
		return strings.HasPrefix(name, "installonlypkg(") || strings.HasPrefix(name, "multiversion(")
	})
}

// yumState is rpmState with yum's own journals.
func yumState(ctx context.Context, h *host.Host) (plan.Answer, error) {
	files, err := afero.ReadDir(h.Files, path.Dir(yumJournal))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return plan.Answer{}, fmt.Errorf("reading the state of packages: %w", err)
	}
	var answer plan.Answer
	for _, f := range files {
		if ok, err := path.Match(path.Base(yumJournal), f.Name()); err == nil && ok {
			answer.Find(path.Join(path.Dir(yumJournal), plainName(f.Name())), `yum was interrupted: run "yum-complete-transaction" of the package yum-utils`)
		}
	}
	more, err := rpmState(`run "package-cleanup --cleandupes" of the package yum-utils`)(ctx, h)
	answer.Add(more)
	return answer, err
}
