package distros

import "strings"

// Guide is a distribution's content of the SCAP Security Guide, by which the option
// hardening hardens a machine (https://github.com/ComplianceAsCode/content).
type Guide struct {
	// Packages are the scanner, which has the program oscap, and the package with the
	// content; empty if the guide has no content for the distribution.
	Packages []string
	// Product names a release in files of the content: {version} is its version without
	// dots, and {major} the part before the first dot.
	Product string
	// Levels are the levels of hardening in the newest content.
	Levels []string
}

// The levels of hardening.
const (
	CIS1 = "cis-l1"
	CIS2 = "cis-l2"
	STIG = "stig"
)

const guideFolder = "/usr/share/xml/scap/ssg/content/"

// File is the data stream of a release in the package of the content.
func (g Guide) File(version string) string {
	major, _, _ := strings.Cut(version, ".")
	product := strings.NewReplacer("{version}", strings.ReplaceAll(version, ".", ""), "{major}", major)
	return guideFolder + "ssg-" + product.Replace(g.Product) + "-ds.xml"
}

// redHatGuide is the content of the family of Red Hat, where each rebuild has its product.
func redHatGuide(product string, levels ...string) Guide {
	return Guide{Packages: []string{"openscap-scanner", "scap-security-guide"}, Product: product, Levels: levels}
}
