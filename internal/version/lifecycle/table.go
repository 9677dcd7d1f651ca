package lifecycle

// Checked is the day on which the table was last compared with its sources. Pages call a
// release ended if its support had ended by then.
const Checked = "2026-11-28"

// The publishers' pages of releases with their ends.
const (
	eks        = "https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html"
	containerd = "https://containerd.io/releases/"
	runc       = "https://github.com/opencontainers/runc/blob/main/RELEASES.md"
	plugins    = "https://github.com/containernetworking/plugins/releases"
	provider   = "https://github.com/kubernetes/cloud-provider-aws/releases"
	alma       = "https://wiki.almalinux.org/release-notes/"
	debian     = "https://wiki.debian.org/DebianReleases"
	debianLTS  = "https://wiki.debian.org/LTS"
	fedora     = "https://fedorapeople.org/groups/schedule/"
	leap       = "https://en.opensuse.org/Lifetime"
	redHat     = "https://access.redhat.com/support/policy/updates/errata"
	rocky      = "https://wiki.rockylinux.org/rocky/version/"
	suse       = "https://www.suse.com/lifecycle"
	ubuntu     = "https://wiki.ubuntu.com/Releases"
)

// table lists the newest line of each ID first.
func table() []Row {
	return []Row{
		// EKS did not have 1.37 when the table was checked.
		{"kubelet", "1.37", "1.37.2", "", "", eks},
		{"kubelet", "1.36", "1.36.3", "standard support of Kubernetes 1.36 on EKS", "2027-08-02", eks},
		{"kubelet", "1.35", "1.35.4", "standard support of Kubernetes 1.35 on EKS", "2027-03-27", eks},
		{"kubelet", "1.34", "1.34.4", "standard support of Kubernetes 1.34 on EKS", "2026-12-02", eks},
		{"kubelet", "1.33", "1.33.13", "standard support of Kubernetes 1.33 on EKS", "2026-07-29", eks},
		{"kubelet", "1.32", "1.32.13", "standard support of Kubernetes 1.32 on EKS", "2026-03-23", eks},
		{"kubelet", "1.31", "", "standard support of Kubernetes 1.31 on EKS", "2025-11-26", eks},
		// EKS updates a cluster itself after the end of extended support.
		{"kubelet", "1.36", "", "extended support of Kubernetes 1.36 on EKS", "2028-08-02", eks},
		{"kubelet", "1.35", "", "extended support of Kubernetes 1.35 on EKS", "2028-03-27", eks},
		{"kubelet", "1.34", "", "extended support of Kubernetes 1.34 on EKS", "2027-12-02", eks},
		{"kubelet", "1.33", "", "extended support of Kubernetes 1.33 on EKS", "2027-07-29", eks},
		{"kubelet", "1.32", "", "extended support of Kubernetes 1.32 on EKS", "2027-03-23", eks},
		{"kubelet", "1.31", "", "extended support of Kubernetes 1.31 on EKS", "2026-11-26", eks},
		{"kubelet", "1.30", "", "extended support of Kubernetes 1.30 on EKS", "2026-07-23", eks},
		{"kubelet", "1.29", "", "extended support of Kubernetes 1.29 on EKS", "2026-03-23", eks},
		{"kubelet", "1.28", "", "extended support of Kubernetes 1.28 on EKS", "2025-11-26", eks},
		{"kubelet", "1.27", "", "extended support of Kubernetes 1.27 on EKS", "2025-07-24", eks},
		{"kubelet", "1.26", "", "extended support of Kubernetes 1.26 on EKS", "2025-06-11", eks},
		{"kubelet", "1.25", "", "extended support of Kubernetes 1.25 on EKS", "2025-05-01", eks},
		{"kubelet", "1.24", "", "extended support of Kubernetes 1.24 on EKS", "2025-01-31", eks},

		// 2.4 is not a long-term line, and its end is tentative.
		{"containerd", "2.4", "", "support of containerd 2.4", "2027-04-26", containerd},
		{"containerd", "2.3", "2.3.7", "support of containerd 2.3", "2028-04-30", containerd},
		{"containerd", "2.2", "", "support of containerd 2.2", "2026-11-06", containerd},
		{"containerd", "2.1", "", "support of containerd 2.1", "2026-07-03", containerd},
		{"containerd", "2.0", "", "support of containerd 2.0", "2027-03-31", containerd},
		{"containerd", "1.7", "", "support of containerd 1.7", "2026-09-30", containerd},
		{"containerd", "1.6", "", "support of containerd 1.6", "2025-08-23", containerd},

		// runc supports the three newest lines, without days.
		{"runc", "1.5", "1.5.3", "", "", runc},
		{"cni-plugins", "1.10", "1.10.0", "", "", plugins},
		{"ecr-credential-provider", "1.37", "1.37.0", "", "", provider},

		{"almalinux", "10", "", "support of AlmaLinux 10", "2035-05-31", alma},
		{"almalinux", "9", "", "support of AlmaLinux 9", "2032-05-31", alma},
		{"amazonlinux2", "2", "", "support of Amazon Linux 2", "2026-06-30", "https://aws.amazon.com/amazon-linux-2/faqs/"},
		{
			"amazonlinux2", "2", "", "publication of AWS's EKS images of Amazon Linux 2", "2025-11-26",
			"https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html",
		},
		{
			"amazonlinux2023", "2023", "", "support of Amazon Linux 2023", "2029-06-30",
			"https://docs.aws.amazon.com/linux/al2023/ug/release-cadence.html",
		},
		{"debian", "13", "", "regular security support of Debian 13", "2028-08-09", debian},
		{"debian", "13", "", "long-term support of Debian 13", "2030-06-30", debianLTS},
		{"debian", "12", "", "regular security support of Debian 12", "2026-07-11", debian},
		{"debian", "12", "", "long-term support of Debian 12", "2028-06-30", debianLTS},
		// A release of Fedora ends four weeks after the second next one is published, so
		// its day may still move.
		{"fedora", "44", "", "support of Fedora 44", "2027-06-02", fedora},
		{"fedora", "43", "", "support of Fedora 43", "2026-12-09", fedora},
		{"opensuse-leap-15", "15.6", "", "support of openSUSE Leap 15.6", "2026-04-30", leap},
		{"opensuse-leap-16", "16.0", "", "support of openSUSE Leap 16.0", "2027-10-31", leap},
		{"rhel", "10", "", "maintenance support of Red Hat Enterprise Linux 10", "2035-05-31", redHat},
		{"rhel", "9", "", "maintenance support of Red Hat Enterprise Linux 9", "2032-05-31", redHat},
		{"rocky", "10", "", "support of Rocky Linux 10", "2035-05-31", rocky},
		{"rocky", "9", "", "support of Rocky Linux 9", "2032-05-31", rocky},
		{"sles-16", "16.0", "", "general support of SUSE Linux Enterprise Server 16.0", "2027-11-30", suse},
		{"sles", "15", "", "general support of SUSE Linux Enterprise Server 15", "2031-07-31", suse},
		{"sles", "15.6", "", "general support of SUSE Linux Enterprise Server 15 SP6", "2025-12-31", suse},
		{"sles", "15.6", "", "long-term service pack support of SUSE Linux Enterprise Server 15 SP6", "2028-12-31", suse},
		{"sles", "15.5", "", "general support of SUSE Linux Enterprise Server 15 SP5", "2024-12-31", suse},
		{"sles", "15.5", "", "long-term service pack support of SUSE Linux Enterprise Server 15 SP5", "2027-12-31", suse},
		{"sles", "15.4", "", "general support of SUSE Linux Enterprise Server 15 SP4", "2023-12-31", suse},
		{"sles", "15.4", "", "long-term service pack support of SUSE Linux Enterprise Server 15 SP4", "2026-12-31", suse},
		{"ubuntu", "26.04", "", "standard support of Ubuntu 26.04", "2031-04-30", ubuntu},
		{"ubuntu", "24.04", "", "standard support of Ubuntu 24.04", "2029-05-31", ubuntu},
		{"ubuntu", "22.04", "", "standard support of Ubuntu 22.04", "2027-04-01", ubuntu},
	}
}
