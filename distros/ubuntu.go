package distros

// ubuntu is Ubuntu Server, from a base image without EKS.
func ubuntu() Distro {
	d := debianFamily("ubuntu", "Ubuntu")
	d.OSRelease = []string{"ubuntu"}
	d.Versions = []string{"22.04", "24.04", "26.04"}
	d.Tested = ShapeTested
	d.Differs = "chrony keeps the clock. Provisioning does not change snapd."
	d.Releases = map[string]ReleaseFacts{
		"22.04": {Containerd: "1.7"},
		"24.04": {Containerd: "1.7"},
		"26.04": {Containerd: "2"},
	}
	d.OptionPackages = withDrivers(withSwap(UsualOptionPackages("auditd", "chrony"), "systemd-zram-generator"))
	d.NVIDIA = nvidiaOfUbuntu()
	d.FIPS = FIPS{Enable: "run pro enable fips-updates with an Ubuntu Pro subscription and restart before provisioning, or choose a base image of Ubuntu Pro FIPS"}
	d.Guide = Guide{Packages: []string{"openscap-scanner", "ssg-debderived"}, Product: "ubuntu{version}",
		Levels: []string{CIS1, CIS2, STIG}}
	d.Time = DebianChrony()
	d.DefaultUser = "ubuntu"
	d.BaseImages = []BaseImage{
		{Versions: []string{"22.04"}, Owner: "099720109477", ChinaOwner: "837727238323",
			Name: "ubuntu/images/hvm-ssd/ubuntu-jammy-{version}-{arch}-server-*", Parameter: "/aws/service/canonical/ubuntu/server/{version}/stable/current/{arch}/hvm/ebs-gp2/ami-id", AMD64: "amd64", ARM64: "arm64", Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"}},
		{Versions: []string{"24.04"}, Owner: "099720109477", ChinaOwner: "837727238323",
			Name: "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-{version}-{arch}-server-*", Parameter: "/aws/service/canonical/ubuntu/server/{version}/stable/current/{arch}/hvm/ebs-gp3/ami-id", AMD64: "amd64", ARM64: "arm64", Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"}},
		{Versions: []string{"26.04"}, Owner: "099720109477", ChinaOwner: "837727238323",
			Name: "ubuntu/images/hvm-ssd-gp3/ubuntu-resolute-{version}-{arch}-server-*", Parameter: "/aws/service/canonical/ubuntu/server/{version}/stable/current/{arch}/hvm/ebs-gp3/ami-id", AMD64: "amd64", ARM64: "arm64", Sources: []string{"https://github.com/kubernetes/kops/blob/master/docs/operations/images.md"}},
	}
	d.CloudImages = []CloudImage{
		{Version: "22.04", URL: "https://cloud-images.ubuntu.com/releases/jammy/release/ubuntu-22.04-server-cloudimg-{arch}.img", Sums: "https://cloud-images.ubuntu.com/releases/jammy/release/SHA256SUMS", Signature: "https://cloud-images.ubuntu.com/releases/jammy/release/SHA256SUMS.gpg", Key: ubuntuImages, AMD64: "amd64", ARM64: "arm64"},
		{Version: "24.04", URL: "https://cloud-images.ubuntu.com/releases/noble/release/ubuntu-24.04-server-cloudimg-{arch}.img", Sums: "https://cloud-images.ubuntu.com/releases/noble/release/SHA256SUMS", Signature: "https://cloud-images.ubuntu.com/releases/noble/release/SHA256SUMS.gpg", Key: ubuntuImages, AMD64: "amd64", ARM64: "arm64"},
		{Version: "26.04", URL: "https://cloud-images.ubuntu.com/releases/resolute/release/ubuntu-26.04-server-cloudimg-{arch}.img", Sums: "https://cloud-images.ubuntu.com/releases/resolute/release/SHA256SUMS", Signature: "https://cloud-images.ubuntu.com/releases/resolute/release/SHA256SUMS.gpg", Key: ubuntuImages, AMD64: "amd64", ARM64: "arm64"},
	}
	return d
}

// ubuntuImages signs the checksum files of cloud-images.ubuntu.com. It is from Debian's
// package ubuntu-keyring; its fingerprint is D2EB44626FDDC30B513D5BB71A5D6C4C7DB87C81.
const ubuntuImages = `-----BEGIN PGP PUBLIC KEY BLOCK-----

mQINBEqwKTUBEAC8V01JGfeYVVlwlcr0dmwF8n+We/lbxwArjR/gZlH7/MJEZnAL
QHUrDTpD3SkfbsjQgeNt8eS3Jyzoc2r3t2nos4rXPH4kIzAvtqslz6Ns4ZYjoHVk
VC2oV8vYbxER+3/lDjTWVII7omtDVvqH33QlqYZ8+bQbs21lZb2ROJIQCiH0Yzaq
YR0I2SEykBL873V0ygdyW/mCMwniXTLUyGAUV4/28NOzw/6LGvJElJe4UqwQxl/a
XtPIJjPka8LA8+nDi5/u6WEgDWgBhLEHvQG1BNdttm3WCjbu4zS3mNfNBidTamZf
OaMJUZVYxhOB5kNQqyR4eYqFK/U+305eLrZ05ocadsmcQWkHQVbgt+g4yyFNl56N
5AirkFjVtfArkUJfINGgJ7gkSeyqTJK24f33vsIpPwRQ5eFn7H4PwGc0Piym73YL
JnlR94LNEG0ceOJ7u1r+WuaesIj+lKIZsG/rRLf7besaMCCtPcimVgEAmBoIdpTp
dP3aa54w/dvfSwW47mGY14G5PBk/0MDy2Y5HOeXat3RXpGZZFh7zbwSQ93RhYH3b
NPNd5lMu3ZRkYX19FWxoLCi5lx4K3flYhiolZ5i4KxJCoGRobsKjm74Xv2QlvCXY
yAk5BnAQCsu5hKZ1sOhQADCcKz1Zbg8JRc3vmelaJ/VFvHTzs4hJTUvOowARAQAB
tDRVRUMgSW1hZ2UgQXV0b21hdGljIFNpZ25pbmcgS2V5IDxjZGltYWdlQHVidW50
dS5jb20+iQI3BBMBAgAhAhsDAh4BAheABQJKsColBQsJCAcDBRUKCQgLBRYCAwEA
AAoJEBpdbEx9uHyBLicP/jXjfLhs255oT8gmvBXS9WDGSdpPiaMxd0CHEyHuT/Xd
WsoUUYXAPAti8Fyk2K99mze+n4SLCRRJhxqYlcpVy2icc41/VkKI9d/pF4t54RM5
TledYpKVV7xTgoUHZpuL2mWzaT61MzRAxUqqaU42/xSLxLt/noryPHo57IghJXbA
cmgLhFT0fZmtDy9cD4IBvurZF6cRuMJXjxZmssntMHsFZl4PEC3oR/WgJA37OrjM
Vej9r+JA909vr5K/UO+P2gWYOH/2CnGDlaTu72wUrLf6QV5jMyKc6+G7fw5bTJd9
lE8Km2H+4z9e+t7IOv9oxojvESu27exD4LU7SjzZloYnmlTCsdHwgSJVnf+lqXoZ
eUNT9Tmku8VzwCoExTwo9exaJUHeO8ABkfsJVmry40ovzQAHh427+6NpxgkWErVo
cnm54LPIQucZYJrg08s/azRzCjlsYChsaWMvGlMZQo52MuLvETHVPtSggP7sLeIO
lS+8tO1ykSJY65j8AHYBV6hb9EOjWmqpx33GXn8AyCPiMs9/pmeOI0V6YMm6HCLA
wZb+rRS6gcyt9dlWyLU0QLlpmwHSOVJMv2rnNCUtz6pb8y/o9AN2Z48RpH9C9cfv
4dAfbtYn7uTd+M3gk4xyURREg2xuDnraYFs6cZ60/bSy63GxTyi/cCc0S57GgtOK
=KgX0
-----END PGP PUBLIC KEY BLOCK-----`
