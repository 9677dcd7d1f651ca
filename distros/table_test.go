package distros

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryDistroIsComplete(t *testing.T) {
	for _, d := range All() {
		t.Run(d.ID, func(t *testing.T) {
			require.NoError(t, d.Validate())
			assert.Empty(t, undescribed(d))
		})
	}
}

// undescribed returns what the pages lack about a distribution. A program with a
// distribution of its own needs none of it.
func undescribed(d Distro) []string {
	var list []string
	add := func(wrong bool, what string) {
		if wrong {
			list = append(list, what)
		}
	}
	add(d.Tested == "" || d.Differs == "" || d.DefaultUser == "", "Tested, Differs or DefaultUser is empty")
	add(len(d.BaseImages)+len(d.CloudImages) == 0, "BaseImages and CloudImages are empty")
	for _, b := range d.BaseImages {
		add(b.Owner == "" || b.Name == "" || b.AMD64 == "" && b.ARM64 == "", "a base image is incomplete: "+b.Name)
	}
	ends := map[string]int{}
	for version, f := range d.Releases {
		major, _, _ := strings.Cut(version, ".")
		ends[version] += len(f.Ends)
		ends[major] += len(f.Ends)
		for _, e := range f.Ends {
			add(!strings.HasPrefix(e.Source, "https://"), "an end has no source: "+e.Of)
		}
	}
	add(len(d.Versions) == 0 && ends[""] > 0, "a rolling distribution has an end")
	for _, v := range d.Versions {
		add(ends[v] == 0, "internal/version/lifecycle/versions.txt has no end of release "+v)
	}
	return list
}

// Validate names every empty field, and values that contradict each other.
func TestValidateNamesEveryProblem(t *testing.T) {
	for i := range reflect.TypeFor[Distro]().NumField() {
		name := reflect.TypeFor[Distro]().Field(i).Name
		if slices.Contains(mayBeEmpty, name) {
			continue
		}
		d := debian()
		reflect.ValueOf(&d).Elem().Field(i).SetZero()
		assert.ErrorContains(t, d.Validate(), name+" is empty")
	}
	lines := strings.Split(Distro{}.Validate().Error(), "\n")
	assert.Greater(t, len(lines), 15)
	assert.Equal(t, `distribution "": ID is empty`, lines[0])
	for want, spoil := range map[string]func(*Distro){
		"Packages has no entry for storage; an empty list means that no package is needed": func(d *Distro) { delete(d.Packages, Storage) },
		"Releases has no entry for the version 13":                                         func(d *Distro) { delete(d.Releases, "13") },
		`Releases: "2028-06" of long-term support of Debian 12 is not a day`: func(d *Distro) {
			d.Releases["12"] = ReleaseFacts{Containerd: "1.6", Ends: []End{{Of: "long-term support of Debian 12", Day: "2028-06"}}}
		},
		"CommandFolder is /usr/bin, but /usr is read-only":         func(d *Distro) { d.Quirks = append(d.Quirks, ReadOnlyUsr()) },
		"Packages lists packages, but there is no package manager": func(d *Distro) { d.PackageManager = NoPackageManager() },
		`OptionPackages: no step knows the option "x"`:             func(d *Distro) { d.OptionPackages["x"] = nil },
		"FIPS: set either Enable or None":                          func(d *Distro) { d.FIPS.Enable = "x" },
		"Kernel: set TakenFile or TakenBy, which show the arguments": func(d *Distro) {
			d.FIPS, d.Kernel = FIPSModeSetup(), CommandLine{Name: "own", File: d.Kernel.File}
		},
		"Kernel: set Default, which the boot loader needs for another kernel": func(d *Distro) { d.Kernel.Default = nil },
		`OptionPackages: "neuron" needs Kernels of the package manager`: func(d *Distro) {
			d.PackageManager = dnfManager{}
		},
	} {
		d := debian()
		spoil(&d)
		assert.ErrorContains(t, d.Validate(), `distribution "debian": `+want)
	}
	d := debian()
	d.BaseImages[0].Owner = ""
	assert.NotEmpty(t, undescribed(d))
}

// The file of a distribution has the name of its ID.
func TestEveryDistroHasAFile(t *testing.T) {
	ids := IDs()
	for _, u := range AllUnprovisioned() {
		ids = append(ids, u.ID)
	}
	for _, id := range ids {
		assert.FileExists(t, id+".go")
	}
}

// Of each version, there is an image on AWS or a cloud image.
func TestEveryVersionHasABaseImage(t *testing.T) {
	for _, d := range All() {
		versions := d.Versions
		if len(versions) == 0 {
			versions = []string{""}
		}
		for _, version := range versions {
			found := slices.IndexFunc(d.CloudImages, func(i CloudImage) bool { return i.Version == version }) + 1
			for _, arch := range []string{"amd64", "arm64"} {
				if b, err := d.BaseImage(version, arch, ""); err == nil {
					found++
					assert.NotContains(t, b.Name+b.Parameter, "{")
				}
			}
			assert.NotZero(t, found, "%s %s", d.ID, version)
		}
	}
}

func TestBaseImageByVersionAndArchitecture(t *testing.T) {
	b, err := ubuntu().BaseImage("24.04", "arm64", "")
	require.NoError(t, err)
	assert.Equal(t, "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-*", b.Name)
	assert.Equal(t, "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id", b.Parameter)
	_, err = ubuntu().BaseImage("20.04", "arm64", "")
	require.EqualError(t, err, `Ubuntu has no version "20.04"; known are 22.04, 24.04, 26.04`)
	_, err = arch().BaseImage("", "arm64", "")
	require.EqualError(t, err, `the base image arch-linux-std-hvm-* does not exist for the architecture "arm64"`)
	_, err = Distro{Name: "Example Linux"}.BaseImage("", "arm64", "")
	require.EqualError(t, err, "Example Linux has no base image")
}

func TestEveryRefusalHasReasonAndAlternative(t *testing.T) {
	for _, u := range AllUnprovisioned() {
		for name, text := range map[string]string{"name": u.Name, "reason": u.Reason, "instead": u.Instead} {
			assert.NotEmpty(t, text, "%s: %s", u.ID, name)
		}
		for _, b := range u.BaseImages {
			found, err := b.For("1.34", "amd64", "")
			require.NoError(t, err)
			assert.NotContains(t, found.Name+found.Parameter, "{")
		}
	}
}

func TestIDsAreUniqueAndSorted(t *testing.T) {
	ids := IDs()
	assert.True(t, slices.IsSorted(ids))
	assert.Len(t, slices.Compact(slices.Clone(ids)), len(ids))
}

func TestNoOSReleaseMatchesTwoDistros(t *testing.T) {
	type release struct{ id, version string }
	owner := map[release]string{}
	for _, d := range All() {
		for _, id := range d.OSRelease {
			for _, version := range append(slices.Clone(d.Versions), "any") {
				if version == "any" && len(d.Versions) > 0 {
					continue
				}
				key := release{id, version}
				assert.Empty(t, owner[key], "%v", key)
				owner[key] = d.ID
			}
		}
	}
}

func TestAllPackagesListsEachOnce(t *testing.T) {
	d := Distro{Packages: map[Role][]string{ContainerRuntime: {"containerd", "runc"}, Networking: {"runc", "socat"}}}
	assert.Equal(t, []string{"containerd", "runc", "socat"}, d.AllPackages())
}

// Without these packages containers run unconfined, without any error.
func TestConfinementPackagesAreInstalled(t *testing.T) {
	for _, d := range All() {
		if !d.HasPackages() {
			continue // its tools are in the image
		}
		switch have := d.Packages[Confinement]; d.Security.Name {
		case "AppArmor": // containerd looks for /sbin/apparmor_parser
			assert.Len(t, have, 1, d.ID)
			assert.Subset(t, []string{"apparmor", "apparmor-parser"}, have, d.ID)
		case "SELinux":
			assert.Equal(t, []string{"container-selinux", "policycoreutils"}, have, d.ID)
		default:
			assert.Equal(t, "none", d.Security.Name, d.ID)
			assert.Empty(t, have, d.ID)
		}
	}
}
