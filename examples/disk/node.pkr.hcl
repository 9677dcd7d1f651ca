# Turns a distribution's cloud image into an EKS node image, without a machine.
# `make image` builds this template. It needs Linux and root:
#
#   packer init .
#   sudo packer build -var base=debian-13 .
#
# `eksnode build --help` lists the names of base images. For an AMI, add the
# post-processor eksnode-ami, as in ../github-actions.

packer {
  required_plugins {
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = ">= 0.1.0"
    }
  }
}

variable "base" {
  description = "Base image: a name such as debian-13, an address, or a raw or qcow2 file"
  type        = string
  default     = "debian-13"
}

variable "base_checksum" {
  description = "SHA-256 or SHA-512 of the base image; an address needs one"
  type        = string
  default     = ""
}

variable "image" {
  description = "Disk image to write: .raw, .img or .qcow2"
  type        = string
  default     = "node.raw"
}

variable "disk_size" {
  description = "Size of the disk in GiB"
  type        = number
  default     = 8
}

variable "kubernetes_version" {
  description = "Kubelet version"
  type        = string
  default     = "1.36.3"
}

variable "source_url" {
  description = "Mirror of the upstream sites (default: the sites themselves)"
  type        = string
  default     = ""
}

variable "allow_http" {
  description = "Accept a mirror with http:// without a lock file or checksums"
  type        = bool
  default     = false
}

variable "reports" {
  description = "Folder for the reports"
  type        = string
  default     = "reports"
}

source "eksnode-disk" "node" {
  base          = var.base
  base_checksum = var.base_checksum
  image         = var.image
  disk_size     = var.disk_size
}

build {
  sources = ["source.eksnode-disk.node"]

  provisioner "eksnode" {
    kubernetes_version = var.kubernetes_version
    source_url         = var.source_url
    allow_http         = var.allow_http
    report             = "${var.reports}/provision.json"
  }

  # Must be the last provisioner: what runs after a scrub is in the image again.
  provisioner "eksnode-scrub" {
    report = "${var.reports}/scrub.json"
  }
}
