// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/settings.h"

#include <QCryptographicHash>
#include <QFileInfo>
#include <QStandardPaths>

namespace headroom {
namespace {

const auto recentFilesKey = QStringLiteral("recentFiles");
const auto cardKey = QStringLiteral("card");
const auto offloadKey = QStringLiteral("offload");
const auto hostMemoryKey = QStringLiteral("hostMemory");
const auto editorKey = QStringLiteral("editor");
const auto themeKey = QStringLiteral("theme");
const auto exportFolderKey = QStringLiteral("exportFolder");
const auto trustedProgramsKey = QStringLiteral("trustedPrograms");
const auto lightName = QStringLiteral("light");
const auto darkName = QStringLiteral("dark");

QString layoutKey(const QString& widget)
{
    return QStringLiteral("layout/") + widget;
}

QString recordKey(SourceKind kind)
{
    const char* name = kind == SourceKind::script ? "script"
        : kind == SourceKind::exported            ? "exported"
                                                  : "torchScript";
    return QStringLiteral("record/") + QString::fromLatin1(name);
}

/// The key is a hash, since the slashes of a path would group keys.
QString recordKey(const QString& file)
{
    const QByteArray hash = QCryptographicHash::hash(file.toUtf8(), QCryptographicHash::Sha1).toHex();
    return QStringLiteral("recordFile/") + QString::fromLatin1(hash);
}

} // namespace

ThemeChoice themeNamed(const QString& name)
{
    return name == lightName ? ThemeChoice::light : name == darkName ? ThemeChoice::dark : ThemeChoice::followDesktop;
}

Settings::Settings()
    : store_(std::make_unique<QSettings>(QStringLiteral("torch-headroom"), QStringLiteral("torch-headroom")))
{
}

Settings::Settings(const QString& iniFile)
    : store_(std::make_unique<QSettings>(iniFile, QSettings::IniFormat))
{
}

QStringList Settings::recentFiles() const
{
    QStringList files = store_->value(recentFilesKey).toStringList();
    files.removeIf([](const QString& path) { return !QFileInfo::exists(path); });
    return files;
}

void Settings::addRecentFile(const QString& path)
{
    const QString absolute = QFileInfo(path).absoluteFilePath();
    QStringList files = recentFiles();
    files.removeAll(absolute);
    files.prepend(absolute);
    store_->setValue(recentFilesKey, QStringList(files.mid(0, recentFileLimit)));
}

void Settings::clearRecentFiles()
{
    store_->remove(recentFilesKey);
}

ThemeChoice Settings::theme() const
{
    return themeNamed(store_->value(themeKey).toString());
}

void Settings::setTheme(ThemeChoice choice)
{
    if (choice == ThemeChoice::followDesktop)
        store_->remove(themeKey);
    else
        store_->setValue(themeKey, choice == ThemeChoice::light ? lightName : darkName);
}

QByteArray Settings::layout(const QString& widget) const
{
    return store_->value(layoutKey(widget)).toByteArray();
}

void Settings::setLayout(const QString& widget, const QByteArray& state)
{
    store_->setValue(layoutKey(widget), state);
}

QVariantMap Settings::recordChoices(SourceKind kind) const
{
    return store_->value(recordKey(kind)).toMap();
}

QVariantMap Settings::recordChoices(const QString& file) const
{
    return store_->value(recordKey(file)).toMap();
}

void Settings::setRecordChoices(SourceKind kind, const QVariantMap& choices)
{
    store_->setValue(recordKey(kind), choices);
}

void Settings::setRecordChoices(const QString& file, const QVariantMap& choices)
{
    store_->setValue(recordKey(file), choices);
}

QStringList Settings::trustedPrograms() const
{
    return store_->value(trustedProgramsKey).toStringList();
}

void Settings::trustProgram(const QString& path)
{
    store_->setValue(trustedProgramsKey, trustedPrograms() << path);
}

std::string Settings::card() const
{
    return store_->value(cardKey).toString().toStdString();
}

void Settings::setCard(const std::string& card)
{
    if (card.empty())
        store_->remove(cardKey);
    else
        store_->setValue(cardKey, QString::fromStdString(card));
}

OffloadChoice Settings::offload() const
{
    return {store_->value(offloadKey).toBool(), std::max<Bytes>(store_->value(hostMemoryKey).toLongLong(), 0)};
}

void Settings::setOffload(const OffloadChoice& choice)
{
    store_->setValue(offloadKey, choice.allowed);
    store_->setValue(hostMemoryKey, static_cast<qlonglong>(choice.hostMemory));
}

QString Settings::editor() const
{
    return store_->value(editorKey).toString();
}

void Settings::setEditor(const QString& command)
{
    if (command.isEmpty())
        store_->remove(editorKey);
    else
        store_->setValue(editorKey, command);
}

QString Settings::exportFolder() const
{
    const QString folder = store_->value(exportFolderKey).toString();
    return QFileInfo(folder).isDir() ? folder : QStandardPaths::writableLocation(QStandardPaths::DocumentsLocation);
}

void Settings::setExportFolder(const QString& folder)
{
    store_->setValue(exportFolderKey, folder);
}

} // namespace headroom
