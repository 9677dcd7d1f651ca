# Makes an AMI without an instance: eksnode-disk makes a disk of a cloud image, and
# eksnode-ami imports the disk. image.yml runs this template on a hosted runner of GitHub
# Actions. README.md has the permissions.

packer {
  required_plugins {
    eksnode = {
      source  = "github.com/eksnode/eksnode"
      version = ">= 0.1.0"
    }
  }
}

variable "base" {
  description = "Base image with drivers for EC2: a name such as debian-13, an address, or a file"
  type        = string
  default     = "debian-13"
}

variable "base_checksum" {
  description = "SHA-256 or SHA-512 of the base image; an address needs one"
  type        = string
  default     = ""
}

variable "region" {
  description = "AWS region of the AMI"
  type        = string
}

variable "name" {
  description = "Beginning of the AMI's name"
  type        = string
  default     = "eksnode-debian13"
}

variable "kubernetes_version" {
  description = "Kubelet version"
  type        = string
  default     = "1.36.3"
}

variable "disk_size" {
  description = "Size of the disk, and of the AMI's root volume, in GiB"
  type        = number
  default     = 8
}

variable "parent_ami" {
  description = "Earlier AMI of this template: only blocks that differ are uploaded (default: none)"
  type        = string
  default     = ""
}

variable "reports" {
  description = "Folder for the reports"
  type        = string
  default     = "reports"
}

source "eksnode-disk" "node" {
  base          = var.base
  base_checksum = var.base_checksum
  image         = "node.raw"
  disk_size     = var.disk_size
}

build {
  sources = ["source.eksnode-disk.node"]

  provisioner "eksnode" {
    kubernetes_version = var.kubernetes_version
    report             = "${var.reports}/provision.json"
  }

  # Must be the last provisioner: what runs after a scrub is in the image again.
  provisioner "eksnode-scrub" {
    report = "${var.reports}/scrub.md"
  }

  # Audits the disk, uploads it and registers the AMI. A finding stops the build before
  # anything is uploaded.
  post-processors {
    post-processor "eksnode-ami" {
      ami_name        = "${var.name}-${var.kubernetes_version}-${formatdate("YYYYMMDDhhmmss", timestamp())}"
      ami_description = "EKS node, Kubernetes ${var.kubernetes_version}, Debian 13"
      region          = var.region
      parent_ami      = var.parent_ami
    }

    post-processor "manifest" {
      output = "${var.reports}/manifest.json"
    }
  }
}
