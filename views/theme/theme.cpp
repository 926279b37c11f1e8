// SPDX-FileCopyrightText: 2026 Headroom contributors
// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/theme/theme.h"

#include <QApplication>
#include <QFontDatabase>
#include <QPainter>
#include <QStyleFactory>
#include <QWidget>

#include <algorithm>
#include <cmath>

// Resources of a static library must be pulled in by name, outside of any namespace.
static void initialiseResources()
{
    Q_INIT_RESOURCE(fonts);
    Q_INIT_RESOURCE(icons);
}

namespace headroom {
namespace {

QFont font(const QString& family, int pixels, QFont::Weight weight = QFont::Normal)
{
    QFont made(family);
    made.setPixelSize(pixels);
    made.setWeight(weight);
    made.setStyleHint(QFont::SansSerif);
    return made;
}

QColor mixed(const QColor& a, const QColor& b, double share)
{
    const auto channel = [share](int from, int to) { return static_cast<int>(from + (to - from) * share + 0.5); };
    return {channel(a.red(), b.red()), channel(a.green(), b.green()), channel(a.blue(), b.blue())};
}

void setFonts(Theme& theme)
{
    const QString text = QStringLiteral("Inter");
    const QString digits = QStringLiteral("Roboto");
    theme.body = font(text, 12);
    theme.bodyStrong = font(text, 12, QFont::DemiBold);
    theme.title = font(text, 13, QFont::DemiBold);
    theme.selection = font(text, 16, QFont::DemiBold);
    theme.caption = font(text, 11);
    theme.number = font(digits, 12);
    theme.numberStrong = font(digits, 12, QFont::Medium);
    theme.numberCaption = font(digits, 11);
    theme.numberLarge = font(digits, 20, QFont::Medium);
}

void setCategories(Theme& theme, std::initializer_list<std::pair<Category, QRgb>> colors)
{
    for (const auto& [category, color] : colors)
        theme.categories[static_cast<std::size_t>(category)] = QColor(color);
}

} // namespace

Theme Theme::light()
{
    Theme theme;
    theme.surface = QColor(0xF4F5F7);
    theme.card = QColor(0xFFFFFF);
    theme.line = QColor(0xDFE3E8);
    theme.text = QColor(0x171B22);
    theme.secondText = QColor(0x5B6470);
    theme.accent = QColor(0x6B3FA0);
    theme.accentSoft = QColor(0xEDE6F6);
    theme.host = QColor(0x00697A);
    theme.hostSoft = QColor(0xDCF0F3);
    theme.danger = QColor(0xB3261E);
    theme.dangerSoft = QColor(0xFBE9E7);
    theme.hover = QColor(0xF0F2F5);
    theme.selected = QColor(0xE9EDF2);
    theme.ghost = QColor(0xDDE1E6);
    theme.quiet = QColor(0x878F9B);
    theme.hatch = QColor(0x828A95);
    setCategories(theme,
                  {{Category::parameter, 0x33589B},
                   {Category::buffer, 0x8C939F},
                   {Category::optimizer, 0x529AC8},
                   {Category::input, 0x435039},
                   {Category::other, 0x81613A},
                   {Category::gradient, 0x038165},
                   {Category::activation, 0xBB5A01},
                   {Category::temporary, 0xAE903F},
                   {Category::nonPyTorch, 0x222A34},
                   {Category::unshardedParameter, 0x6A10F6},
                   {Category::unshardedGradient, 0x7410BA},
                   {Category::communication, 0xBA60F6}});
    theme.ramp
        = {QColor(0x041F3D), QColor(0x004D62), QColor(0x026D50), QColor(0x446F2C), QColor(0x806800), QColor(0xDF7422)};
    setFonts(theme);
    return theme;
}

Theme Theme::dark()
{
    Theme theme;
    theme.isDark = true;
    theme.surface = QColor(0x111419);
    theme.card = QColor(0x191D24);
    theme.line = QColor(0x2A303A);
    theme.text = QColor(0xE8EBF0);
    theme.secondText = QColor(0x9BA4B1);
    theme.accent = QColor(0xC3A2F5);
    theme.accentSoft = QColor(0x352A48);
    theme.host = QColor(0x6FD0DE);
    theme.hostSoft = QColor(0x17363C);
    theme.danger = QColor(0xFF8A80);
    theme.dangerSoft = QColor(0x43221F);
    theme.hover = QColor(0x20252D);
    theme.selected = QColor(0x262C36);
    theme.ghost = QColor(0x323944);
    theme.quiet = QColor(0x6B7583);
    theme.hatch = QColor(0x66707D);
    setCategories(theme,
                  {{Category::parameter, 0x5B84CF},
                   {Category::buffer, 0x78818E},
                   {Category::optimizer, 0x8CC8EE},
                   {Category::input, 0xD5DED0},
                   {Category::other, 0xA9744A},
                   {Category::gradient, 0x3CAE8E},
                   {Category::activation, 0xF0934A},
                   {Category::temporary, 0xF2D57E},
                   {Category::nonPyTorch, 0x7A6A60},
                   {Category::unshardedParameter, 0x847EF6},
                   {Category::unshardedGradient, 0x8E2EF6},
                   {Category::communication, 0xC02EA6}});
    theme.ramp
        = {QColor(0x456AA5), QColor(0x2C8CA6), QColor(0x45B08F), QColor(0x9BC56C), QColor(0xEBD57A), QColor(0xF0934A)};
    setFonts(theme);
    return theme;
}

/// The themes are made once, since Qt looks up the font of each new QFont again.
const Theme& Theme::make(bool isDark)
{
    static const Theme themes[]{light(), dark()};
    return themes[isDark ? 1 : 0];
}

const Theme& Theme::of(const QWidget& widget)
{
    return make(widget.palette().color(QPalette::Window).lightness() < 128);
}

void Theme::paintPale(QPainter& painter, const QRectF& bar, Category category) const
{
    painter.fillRect(bar, color(category));
    const QRectF inside = bar.adjusted(1, 1, -1, -1);
    if (inside.isValid())
        painter.fillRect(inside, mixed(card, color(category), isDark ? 0.32 : 0.34));
}

QColor Theme::rampColor(double share) const
{
    const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(ramp.size() - 1);
    const auto below = std::min(static_cast<std::size_t>(place), ramp.size() - 2);
    return mixed(ramp[below], ramp[below + 1], place - static_cast<double>(below));
}

QPalette Theme::palette() const
{
    QPalette made;
    made.setColor(QPalette::Window, surface);
    made.setColor(QPalette::WindowText, text);
    made.setColor(QPalette::Base, card);
    made.setColor(QPalette::AlternateBase, hover);
    made.setColor(QPalette::Text, text);
    made.setColor(QPalette::PlaceholderText, secondText);
    made.setColor(QPalette::Button, card);
    made.setColor(QPalette::ButtonText, text);
    made.setColor(QPalette::BrightText, danger);
    made.setColor(QPalette::ToolTipBase, card);
    made.setColor(QPalette::ToolTipText, text);
    made.setColor(QPalette::Highlight, selected);
    made.setColor(QPalette::HighlightedText, text);
    made.setColor(QPalette::Link, text);
    made.setColor(QPalette::LinkVisited, secondText);
    made.setColor(QPalette::Light, card);
    made.setColor(QPalette::Midlight, hover);
    made.setColor(QPalette::Mid, line);
    made.setColor(QPalette::Dark, mixed(line, text, 0.3));
    made.setColor(QPalette::Shadow, isDark ? QColor(0, 0, 0) : QColor(0x9AA2AD));
    const QColor off = mixed(secondText, card, 0.45);
    for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::HighlightedText})
        made.setColor(QPalette::Disabled, role, off);
    return made;
}

QString Theme::styleSheet() const
{
    // The looks that the palette does not cover. Widgets ask for them by dynamic properties: a QFrame for `card`,
    // `separator` or `message`; a QLabel for a size (`headline`, `selection`, `title`, `strong`, `caption`) and for a
    // colour (`second`, `danger`); a QToolButton for `framed`, `primary` or `segment`. A label's own font and palette
    // would be lost when the theme changes, since a new style resets both.
    return QStringLiteral(R"(
QFrame[card="true"] { background: %1; border: 1px solid %2; border-radius: 6px; }
QLabel[second="true"] { color: %4; }
QFrame[message="plain"] { background: %1; border: 1px solid %2; border-radius: 6px; }
QFrame[message="error"] { background: %10; border: 1px solid %9; border-radius: 6px; }
QProgressBar { background: %2; border: none; border-radius: 3px; }
QProgressBar::chunk { background: %3; border-radius: 3px; }
QFrame[separator="true"] { background: %2; border: none; min-height: 1px; max-height: 1px; }
QLabel[danger="true"] { color: %9; }
QLabel[headline="true"] { font-size: 22px; font-weight: 600; }
QLabel[selection="true"] { font-size: 16px; font-weight: 600; }
QLabel[title="true"] { font-size: 13px; font-weight: 600; }
QLabel[strong="true"] { font-weight: 600; }
QLabel[caption="true"] { font-size: 11px; }
QLabel[code="true"], QPlainTextEdit[code="true"] { font-family: "DejaVu Sans Mono", "Liberation Mono", monospace;
    font-size: 11px; }
QPlainTextEdit[code="true"] { background: %5; border: none; border-top: 1px solid %2; padding: 4px 8px; }
QLineEdit[wrong="true"], QComboBox[wrong="true"] { border-color: %9; }
QToolTip { background: %1; color: %3; border: 1px solid %2; padding: 4px 6px; }
QPushButton, QToolButton[framed="true"] { background: %1; border: 1px solid %2; border-radius: 5px; padding: 5px 12px; }
QPushButton, QToolButton, QComboBox { outline: none; }
QPushButton:hover, QToolButton[framed="true"]:hover { background: %5; }
QPushButton:pressed { background: %6; }
QPushButton:checked, QPushButton:default { background: %3; color: %1; border-color: %3; }
QPushButton:disabled { color: %7; }
QPushButton:default:disabled { background: %6; border-color: %6; }
QPushButton:focus, QToolButton[framed="true"]:focus { border: 1px solid %3; }
QToolButton[framed="true"]:disabled { color: %7; }
QToolButton[framed="true"]::menu-indicator { image: none; }
QToolButton[primary="true"] { background: %3; color: %1; border-color: %3; }
QToolButton[primary="true"]:hover { background: %4; border-color: %4; }
QToolButton[primary="true"]:disabled { background: %6; color: %7; border-color: %6; }
QToolButton[segment="true"] { background: transparent; color: %4; border: 1px solid transparent; border-radius: 5px;
    padding: 3px 9px; }
QToolButton[segment="true"][small="true"] { padding: 1px 6px; }
QToolButton[segment="true"]:hover { background: %5; }
QToolButton[segment="true"]:checked { background: %6; color: %3; }
QToolButton[segment="true"]:focus { border-color: %3; }
QToolButton[segment="true"]:disabled, QLabel[second="true"]:disabled { color: %7; }
QLineEdit, QAbstractSpinBox, QComboBox { background: %1; border: 1px solid %2; border-radius: 5px; padding: 4px 8px; }
QLineEdit[small="true"] { padding: 1px 6px; }
QLineEdit:disabled { color: %7; }
QLineEdit:focus, QAbstractSpinBox:focus, QComboBox:focus { border: 1px solid %3; }
QComboBox::drop-down { border: none; width: 24px; }
QComboBox::down-arrow { image: url(:/headroom/icons/chevron-down.png); width: 10px; height: 10px; }
QSpinBox[stepped="true"] { padding: 3px 2px 3px 6px; }
QSpinBox[stepped="true"]::up-button, QSpinBox[stepped="true"]::down-button { subcontrol-origin: border; width: 18px; border: none;
    background: transparent; }
QSpinBox[stepped="true"]::up-button { subcontrol-position: top right; }
QSpinBox[stepped="true"]::down-button { subcontrol-position: bottom right; }
QSpinBox[stepped="true"]::up-arrow { image: url(:/headroom/icons/chevron-up.png); width: 8px; height: 8px; }
QSpinBox[stepped="true"]::down-arrow { image: url(:/headroom/icons/chevron-down.png); width: 8px; height: 8px; }
QCheckBox::indicator { width: 7px; height: 7px; padding: 2px; border: 1px solid %4; border-radius: 2px;
    background: transparent; background-clip: content; }
QCheckBox::indicator:checked { background: %3; }
QCheckBox::indicator:focus { border-color: %3; }
QComboBox QAbstractItemView { background: %1; border: 1px solid %2; }
QSplitter::handle { background: transparent; }
QHeaderView::section { background: %1; color: %4; border: none; border-bottom: 1px solid %2; padding: 5px 6px; }
QHeaderView::up-arrow, QHeaderView::down-arrow { subcontrol-origin: padding; subcontrol-position: top center;
    width: 8px; height: 6px; }
QTreeView, QTableView, QListView { border: none; outline: none; show-decoration-selected: 1; }
QTreeView::item { border: none; }
QTreeView::item:hover { background: %5; }
QTreeView::item:selected { background: %6; color: %3; }
QAbstractScrollArea::corner { background: transparent; border: none; }
QScrollBar:vertical { background: transparent; width: 10px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; }
QScrollBar::handle { background: %8; border-radius: 3px; margin: 2px; }
QScrollBar::handle:vertical { min-height: 28px; }
QScrollBar::handle:horizontal { min-width: 28px; }
QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page { background: none; border: none;
    width: 0; height: 0; }
)")
        .arg(card.name(), line.name(), text.name(), secondText.name(), hover.name(), selected.name(),
             mixed(secondText, card, 0.45).name(), mixed(line, secondText, 0.25).name(), danger.name(),
             dangerSoft.name());
}

QColor inkOn(const QColor& ground)
{
    const auto linear = [](double channel) { return std::pow(channel, 2.2); };
    const double luminance
        = 0.2126 * linear(ground.redF()) + 0.7152 * linear(ground.greenF()) + 0.0722 * linear(ground.blueF());
    return luminance > 0.2 ? QColor(0x111827) : QColor(Qt::white); // at 0.2 both have the same contrast
}

void loadFonts()
{
    initialiseResources();
    if (QFontDatabase::hasFamily(QStringLiteral("Inter")) && QFontDatabase::hasFamily(QStringLiteral("Roboto")))
        return;
    for (const auto* name : {"Inter-Regular.otf", "Inter-SemiBold.otf", "Roboto-Regular.ttf", "Roboto-Medium.ttf"})
        QFontDatabase::addApplicationFont(QStringLiteral(":/headroom/fonts/") + QString::fromLatin1(name));
}

void applyTheme(QApplication& application, const Theme& theme)
{
    loadFonts();
    application.setStyle(QStyleFactory::create(QStringLiteral("Fusion")));
    application.setPalette(theme.palette());
    application.setFont(theme.body);
    application.setStyleSheet(theme.styleSheet());
}

QString categoryTitle(Category category)
{
    switch (category) {
    case Category::parameter:
        return QStringLiteral("Parameters");
    case Category::buffer:
        return QStringLiteral("Buffers");
    case Category::gradient:
        return QStringLiteral("Gradients");
    case Category::activation:
        return QStringLiteral("Activations");
    case Category::temporary:
        return QStringLiteral("Temporaries");
    case Category::optimizer:
        return QStringLiteral("Optimizer state");
    case Category::input:
        return QStringLiteral("Inputs");
    case Category::other:
        return QStringLiteral("Other");
    case Category::nonPyTorch:
        return QStringLiteral("Not PyTorch's");
    case Category::unshardedParameter:
        return QStringLiteral("Unsharded parameters");
    case Category::unshardedGradient:
        return QStringLiteral("Unsharded gradients");
    case Category::communication:
        return QStringLiteral("Communication buffers");
    }
    return {};
}

} // namespace headroom
